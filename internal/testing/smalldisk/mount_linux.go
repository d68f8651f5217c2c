package smalldisk

import (
	"fmt"
	"syscall"
)

// Mount puts a file system of so many bytes on a directory that exists. The
// error wraps fs.ErrPermission for those who may not mount.
func Mount(dir string, size int64) (*Disk, error) {
	if err := mount(dir, size, 0); err != nil {
		return nil, err
	}
	return &Disk{dir}, nil
}

// Resize enlarges the disk, or makes it smaller as far as its content lets it.
func (d *Disk) Resize(size int64) error { return mount(d.dir, size, syscall.MS_REMOUNT) }

// Unmount removes the disk with its content. It returns at once where files
// are still open, and the disk goes when they are closed.
func (d *Disk) Unmount() error { return syscall.Unmount(d.dir, syscall.MNT_DETACH) }

func mount(dir string, size int64, flags uintptr) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		return fmt.Errorf("mount a disk of %d bytes on %s: %w", size, dir, err)
	}
	return nil
}
