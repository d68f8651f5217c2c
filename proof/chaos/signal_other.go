//go:build !linux

package chaos

import "syscall"

// orphaned does nothing: only Linux can end children with their parent. Elsewhere the
// run's clean-up ends them.
func orphaned() *syscall.SysProcAttr { return nil }

// No process is suspended here: the faults that need it are left out.
const (
	freezeSignal   = syscall.Signal(0)
	thawSignal     = syscall.Signal(0)
	lameDuckSignal = syscall.Signal(0)
)

const canFreeze = false
