package embedded

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

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
