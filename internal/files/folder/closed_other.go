//go:build !linux

package folder

import (
	"os"
	"syscall"
)

const nonblocking = syscall.O_NONBLOCK

// writerOf cannot tell here.
func writerOf(*os.File) writer { return writerUnknown }
