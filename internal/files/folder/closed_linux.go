package folder

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const nonblocking = unix.O_NONBLOCK

// local are the file systems on which every program that writes a file runs on this host, so
// that the kernel knows of it: ext, XFS, Btrfs, F2FS, ZFS, tmpfs, overlayfs.
var local = []int64{0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x2FC12FC1, 0x01021994, 0x794C7630}

// writerOf says whether a program has a file open for writing. The kernel grants a read lease
// only if none has. It needs the file's owner, or CAP_LEASE. A lease that is held makes a program
// that opens the file wait, so it is given back at once.
func writerOf(f *os.File) writer {
	var at unix.Statfs_t
	fd := int(f.Fd())
	if unix.Fstatfs(fd, &at) != nil || !slices.Contains(local, int64(at.Type)) { //nolint:unconvert // other architectures have other types
		return writerUnknown
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return writerThere
	case err != nil:
		return writerUnknown
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return writerGone
}
