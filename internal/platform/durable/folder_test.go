package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A start that was killed after it made the folder, and before it synced the folder that
// holds it, is made up for by the next one.
func TestMakeFolderSyncsWhatHoldsIt(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return SyncFolder(dir)
	}
	require.NoError(t, MakeFolder(dir, sync))
	require.DirExists(t, dir)
	require.Equal(t, []string{filepath.Join(root, "a", "b"), filepath.Join(root, "a"), root}, synced)

	synced = nil
	require.NoError(t, MakeFolder(dir, sync))
	require.Equal(t, []string{filepath.Join(root, "a", "b")}, synced)
}

func TestMakeFolderSaysWhatFailed(t *testing.T) {
	root := t.TempDir()
	broken := errors.New("input/output error")
	require.ErrorIs(t, MakeFolder(filepath.Join(root, "a"), func(string) error { return broken }), broken)

	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, MakeFolder(filepath.Join(file, "a"), SyncFolder), file)
	require.ErrorIs(t, SyncFolder(filepath.Join(root, "missing")), os.ErrNotExist)
}
