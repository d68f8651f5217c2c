package uploads

import "syscall"

const noSpace = syscall.ENOSPC
