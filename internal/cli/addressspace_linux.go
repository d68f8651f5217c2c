package cli

import (
	"math"
	"syscall"
)

// addresses returns how many bytes of address space the process may have.
func addresses() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}
