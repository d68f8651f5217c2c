package queue

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// R2: a broker that cannot read its file answers "no message found". Nobody
// takes that for an order that was never posted.
func TestR2ARecordThatCannotBeLoadedIsNotMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openQueue(t, startBrokerIn(t, dir), "a")
	putRecord(t, q, "R-0", 0)
	subject := q.Conn.n.resPre + "R-0"
	restore := makeUnreadable(t, q, dir, q.Conn.n.results, subject)

	_, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, subject)
	require.ErrorIs(t, err, settle.ErrNotLoaded)
	p := settle.New(settle.Config{Worker: "a", Log: zerolog.Nop()}, jetStore{q}, settle.RealTime())
	words, err := p.Ledger.LastWords(t.Context(), []string{"R-0", "R-1"})
	require.NoError(t, err, "R-1 does not wait for R-0")
	require.ErrorIs(t, words[0].Unreadable, settle.ErrNotLoaded, "R-0 was accepted, and would be posted again")
	require.Equal(t, settle.LastWord{}, words[1])

	restore()
	words, err = p.Ledger.LastWords(t.Context(), []string{"R-0", "R-1"})
	require.NoError(t, err)
	require.NotNil(t, words[0].Record)
	require.Nil(t, words[1].Record)
}

// R4: a letter that the broker cannot read stays. The Sweeper finds it.
func TestR4ALetterThatCannotBeReadIsNotRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openQueue(t, startBrokerIn(t, dir), "a")
	seq, err := q.store.PutLetter(t.Context(), "A-1", &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected})
	require.NoError(t, err)
	restore := makeUnreadable(t, q, dir, q.Conn.n.dead, q.Conn.n.deadPre+"A-1")
	_ = q.store.DeleteLetter(t.Context(), "A-1", seq)
	restore()
	l, err := q.store.Letter(t.Context(), "A-1", seq)
	require.NoError(t, err)
	require.NotNil(t, l)
}

// makeUnreadable waits until the broker cannot read the stream's only message, which
// is under this subject, and says that there is none. The returned function ends that.
func makeUnreadable(t *testing.T, q *Queue, dir, stream, subject string) (restore func()) {
	t.Helper()
	first := blocks(t, dir, stream)
	require.Len(t, first, 1)
	prefix, _, _ := strings.Cut(subject, "-")
	for len(blocks(t, dir, stream)) == 1 { // the server keeps the last file in memory
		_, err := q.Conn.js.Publish(t.Context(), prefix+"-large", make([]byte, 900_000))
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(first[0], first[0]+".away"))
	require.NoError(t, os.Mkdir(first[0], 0o700)) // opens, and cannot be read
	require.Eventually(t, func() bool {           // until the server's cache is gone
		runtime.GC()
		m, err := q.reader.getMsg(t.Context(), stream, map[string]any{"last_by_subj": subject})
		require.NoError(t, err)
		return m == nil
	}, time.Minute, time.Second)
	return func() {
		require.NoError(t, os.Remove(first[0]))
		require.NoError(t, os.Rename(first[0]+".away", first[0]))
	}
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
