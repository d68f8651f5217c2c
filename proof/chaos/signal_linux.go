package chaos

import "syscall"

// orphaned makes the kernel kill a child when its parent dies, so even a killed run
// leaves no processes behind.
func orphaned() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// The signals that suspend and resume a process, and that tell a nats-server to go.
const (
	freezeSignal   = syscall.SIGSTOP
	thawSignal     = syscall.SIGCONT
	lameDuckSignal = syscall.SIGUSR2
)

const canFreeze = true
