package embedded

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stagingRoot is a file system in memory that all users may write to.
var stagingRoot = "/dev/shm"

// staysInMemory reports whether a folder is on a file system in memory.
func staysInMemory(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}

// ownFolder reports whether a folder is this user's alone.
func ownFolder(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
