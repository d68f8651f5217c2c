//go:build unix

package gateway

import "syscall"

// affordable returns how many connections the door may hold: at most half of the files
// that this process may open, because the broker may run in it.
func affordable(most int) int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return most
	}
	return int(min(uint64(most), uint64(limit.Cur)/2))
}
