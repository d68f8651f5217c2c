//go:build !linux

package chaos

import "syscall"

// orphaned: only Linux ends children with their parent; elsewhere they end
// with the run's own clean-up.
func orphaned() *syscall.SysProcAttr { return nil }

// Nothing is frozen here: the faults that would need it are left out.
const (
	freezeSignal = syscall.Signal(0)
	thawSignal   = syscall.Signal(0)
)

const canFreeze = false
