//go:build linux || darwin || freebsd

package embedded

import "syscall"

func statDisk(dir string) (Disk, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Disk{}, err
	}
	block := int64(st.Bsize)
	return Disk{Free: int64(st.Bavail) * block, Size: int64(st.Blocks) * block}, nil
}
