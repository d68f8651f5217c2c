package uploads

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childVariable names the folder of a console that the test kills.
const childVariable = "ORDERPOST_TEST_UPLOADS"

// child keeps one upload, and receives another that never ends.
func child(dir string) {
	s, err := Open(Config{Dir: dir})
	if err == nil {
		_, err = s.Keep(context.Background(), "whole.csv", anna, strings.NewReader(numbered(1, 10)))
	}
	if err == nil {
		_, err = s.Keep(context.Background(), "endless.csv", anna, io.MultiReader(io.LimitReader(&unlike{}, 8<<20), os.Stdin))
	}
	_, _ = os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

// TestKilled: a console that is killed in the middle of an upload leaves nothing of
// it, and everything of the others.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	cmd.Env = []string{childVariable + "=" + dir}
	stdin, err := cmd.StdinPipe() // the rest of the upload, which does not come
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	half := func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "uploads", "*"+part, packedFile))
		require.NoError(t, err)
		if len(found) == 0 {
			return false
		}
		info, err := os.Stat(found[0])
		return err == nil && info.Size() > 1<<20
	}
	require.Eventually(t, half, 30*time.Second, 5*time.Millisecond)
	_, err = Open(Config{Dir: dir})
	require.ErrorContains(t, err, "another process uses the folder")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	_ = stdin.Close()
	require.True(t, half(), "it was killed in the middle")

	s := openStore(t, dir)
	list := s.List()
	require.Len(t, list, 1)
	require.Equal(t, "whole.csv", list[0].Name)
	require.Equal(t, numbered(1, 10), text(t, s, list[0]))
	names, size := onDisk(t, s)
	require.Equal(t, []string{packedFile}, names)
	require.Equal(t, size, s.Used())
}
