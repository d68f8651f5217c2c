package syncs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/proof/bench/syncs"
)

// The test starts itself as the process that is watched, and that as the program that syncs.
func TestMain(m *testing.M) {
	switch os.Getenv("SYNCS_TEST") {
	case "exec":
		_ = os.Setenv("SYNCS_TEST", "sync")
		fmt.Println(syncs.Exec(os.Args))
		os.Exit(1)
	case "sync":
		for _, dir := range os.Args[1:] {
			if err := syncIn(dir); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func syncIn(dir string) error {
	for range 3 {
		f, err := os.OpenFile(filepath.Join(dir, "synced"), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "at-once"), os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Each fsync and each file that is written at once counts and is slowed, unless it is in
// memory.
func TestWatch(t *testing.T) {
	here, err := filepath.Abs(".") // the temporary folder may be in memory
	require.NoError(t, err)
	disk, err := os.MkdirTemp(here, "disk-*")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(disk)) })
	memory, err := os.MkdirTemp("/dev/shm", "syncs-test-*")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(memory)) })
	w := &syncs.Watch{Delay: 20 * time.Millisecond}
	cmd := exec.Command(os.Args[0], disk, memory)
	cmd.Env = append(os.Environ(), "SYNCS_TEST=exec")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	began := time.Now()
	require.NoError(t, w.Start(cmd))
	require.NoError(t, cmd.Wait())
	ended := time.Now()
	synced := filepath.Join(disk, "synced")
	made, err := w.Between(began, ended)
	require.NoError(t, err)
	require.Equal(t, []string{synced, synced, synced, filepath.Join(disk, "at-once")}, made)
	require.GreaterOrEqual(t, ended.Sub(began), 4*w.Delay)
	early, err := w.Between(began.Add(-time.Hour), began)
	require.NoError(t, err)
	require.Empty(t, early)
}
