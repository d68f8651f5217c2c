package enqueue

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// unsynced returns how many pages of a file are in the page cache alone. It returns
// false if the kernel (before 6.5) does not tell.
func unsynced(t *testing.T, path string) (pages uint64, told bool) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var state unix.Cachestat_t
	err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &state, 0)
	return state.Dirty + state.Writeback, err == nil
}

// TestAWrittenFileIsSynced: when a file of results or rejects has its name, its
// content is on the disk. A power cut would leave an empty file otherwise. The kernel
// says which pages are not. A file that nobody synced shows whether it can tell here.
func TestAWrittenFileIsSynced(t *testing.T) {
	dir := t.TempDir()
	text := bytes.Repeat([]byte("order_no,outcome\n"), 10_000)
	control := filepath.Join(dir, "control")
	require.NoError(t, os.WriteFile(control, text, 0o600))
	dirty, told := unsynced(t, control)
	if !told || dirty == 0 {
		t.Log("NOT TRIED: this kernel or file system does not tell which pages are not on the disk")
		return
	}
	for name, write := range map[string]func(path string) error{
		"results": func(path string) error {
			return replace(path, func(w io.Writer) error { _, err := w.Write(text); return err })
		},
		"rejects": func(path string) error {
			return writeUnlessEdited(t.Context(), path, func(_ context.Context, w io.Writer) error { _, err := w.Write(text); return err })
		},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, write(path))
		dirty, _ := unsynced(t, path)
		require.Zero(t, dirty, "%s: pages that are not on the disk", name)
	}
}
