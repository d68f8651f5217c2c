package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// stagingRoot is a file system in memory that all users may write to.
var stagingRoot = "/dev/shm"

// stagingFolder returns the folder in memory of a data folder, the same at each start, and
// makes it. It returns "" if the machine has no such memory, or another user was there first.
func stagingFolder(dir string) string {
	info, err := os.Stat(dir)
	if err != nil || !staysInMemory(stagingRoot) {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	folder := filepath.Join(stagingRoot, fmt.Sprintf("orderpost-%x-%x", st.Dev, st.Ino))
	if err := os.Mkdir(folder, 0o700); err != nil && !ownFolder(folder) { // what is staged holds orders
		return ""
	}
	return folder
}

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

// flagDirsync is FS_DIRSYNC_FL of Linux, which package unix lacks.
const flagDirsync = 0x10000

// dirsync makes the file system write each change of a folder's entries before it
// returns (chattr +D).
func dirsync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&flagDirsync == 0 {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|flagDirsync))
	}
	return errors.Join(err, f.Close())
}
