package chaos

import "syscall"

// orphaned makes the kernel kill a child whose rig has died, so that not even
// a killed run leaves processes behind.
func orphaned() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// The signals that stop a process in its tracks and let it go on.
const (
	freezeSignal = syscall.SIGSTOP
	thawSignal   = syscall.SIGCONT
)

const canFreeze = true
