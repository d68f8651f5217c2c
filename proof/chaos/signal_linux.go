package chaos

import "syscall"

// orphaned makes the kernel kill a child when its parent dies, so even a killed run
// leaves no processes behind.
func orphaned() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// The signals that suspend and resume a process.
const (
	freezeSignal = syscall.SIGSTOP
	thawSignal   = syscall.SIGCONT
)

const canFreeze = true
