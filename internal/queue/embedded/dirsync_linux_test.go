package embedded

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// canDirsync reports whether the file system of a folder knows the attribute.
func canDirsync(_ *testing.T, dir string) bool { return dirsync(dir) == nil }

func hasDirsync(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&flagDirsync != 0
}
