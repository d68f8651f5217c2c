package queue

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// R2: a broker that cannot read its file answers "no message found". Nobody
// takes that for an order that was never posted.
func TestR2ARecordThatCannotBeLoadedIsNotMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	q := openQueue(t, s, "a")
	putRecord(t, q, "R-0", 0)
	first := blocks(t, dir, q.n.results)
	require.Len(t, first, 1)
	for len(blocks(t, dir, q.n.results)) == 1 { // the server keeps the last file in memory
		_, err := q.js.Publish(t.Context(), q.n.resPre+"large", make([]byte, 900_000))
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(first[0], first[0]+".away"))
	require.NoError(t, os.Mkdir(first[0], 0o700)) // opens, and cannot be read
	subject := q.n.resPre + "R-0"
	require.Eventually(t, func() bool { // until the server's cache is gone
		runtime.GC()
		m, err := q.getMsg(t.Context(), q.n.results, map[string]any{"last_by_subj": subject})
		require.NoError(t, err)
		return m == nil
	}, time.Minute, time.Second)

	_, err = q.lastMsg(t.Context(), q.n.results, subject)
	require.ErrorIs(t, err, errNotLoaded)
	p := settle.New(settle.Config{Worker: "a", Log: zerolog.Nop()}, jetStore{q}, settle.RealTime())
	_, err = p.LastWords(t.Context(), []string{"R-0", "R-1"})
	require.ErrorIs(t, err, errNotLoaded, "R-0 was accepted, and would be posted again")

	require.NoError(t, os.Remove(first[0]))
	require.NoError(t, os.Rename(first[0]+".away", first[0]))
	words, err := p.LastWords(t.Context(), []string{"R-0", "R-1"})
	require.NoError(t, err)
	require.NotNil(t, words[0].Record)
	require.Nil(t, words[1].Record)
}

// blocks returns the files that hold a stream's messages.
func blocks(t *testing.T, dir, stream string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" && filepath.Base(filepath.Dir(filepath.Dir(path))) == stream {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}
