//go:build unix

package enqueue

import (
	"os"
	"syscall"
)

// keepOwner gives f the owner of the file that it replaces. Only root may give a file
// away, so that it may fail.
func keepOwner(f *os.File, of os.FileInfo) {
	if was, ok := of.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(was.Uid), int(was.Gid))
	}
}
