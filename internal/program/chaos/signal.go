package chaos

import "syscall"

// nullSignal asks whether a process exists.
const nullSignal = syscall.Signal(0)
