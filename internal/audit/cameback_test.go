package audit

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// letterFiles is a queue on a broker that can be killed, with dead letters in its files.
type letterFiles struct {
	t     *testing.T
	dir   string
	large int // how many large letters were filed
	*queue.Queue
}

func newLetterFiles(t *testing.T) *letterFiles {
	f := &letterFiles{t: t, dir: t.TempDir()}
	f.start()
	deadLetter(t, f.Queue, "FIRST") // it stays: a file without messages goes, and marks of what comes before the first message are not kept
	return f
}

func (f *letterFiles) start() {
	f.Queue = openQueue(f.t, startBroker(f.t, func(c *embedded.Config) { c.Dir, c.NoSync = f.dir, false }), "a")
}

// kill starts a broker on what one leaves that is killed now.
func (f *letterFiles) kill() {
	var killed string
	err := fs.ErrNotExist
	for errors.Is(err, fs.ErrNotExist) { // again, if the broker renamed a file in the meantime
		killed = f.t.TempDir()
		err = os.CopyFS(killed, os.DirFS(f.dir))
	}
	require.NoError(f.t, err)
	require.NoError(f.t, os.Chmod(killed+"/token", 0o600))
	f.dir = killed
	f.start()
}

// larges files letters of nearly a mebibyte. Eight go into one of the broker's files.
func (f *letterFiles) larges(n int) (filed []*settle.Letter) {
	f.t.Helper()
	for range n {
		f.large++
		no := strconv.Itoa(f.large)
		text, err := json.Marshal(map[string]string{"order_no": no, "memo": strings.Repeat("x", 1<<20-70_000)})
		require.NoError(f.t, err)
		publish(f.t, f.Queue, settle.Intent{OrderNo: no, Body: text, ID: no})
		d := pull(f.t, f.Queue, 1)[0]
		settleAs(f.t, f.Queue, d, report(order.Rejected, d.History))
		requireDrained(f.t, f.Queue)
		filed = append(filed, letterOf(f.t, f.Queue, no))
	}
	return filed
}

// drop removes letters, one after the other.
func (f *letterFiles) drop(letters ...*settle.Letter) {
	f.t.Helper()
	for _, l := range letters {
		_, err := f.Operator.Drop(f.t.Context(), l, settle.Person{Name: "anna"})
		require.NoError(f.t, err)
	}
}

// has reports whether a letter is stored.
func (f *letterFiles) has(letter *settle.Letter) bool {
	f.t.Helper()
	l, err := f.Store().Letter(f.t.Context(), letter.Token(), letter.Seq)
	require.NoError(f.t, err)
	return l != nil
}

// A letter whose removal was confirmed is there again after two kills, if the file that has it
// shrinks by half while the broker reads it (nats-server 2.15.3). The broker then rewrites the
// file without the marks of the removals that it has not come to yet. It still knows of them,
// until it is killed again. No record names the letter any more, so it counts for nothing.
func TestARemovedLetterThatCameBackAfterTwoKills(t *testing.T) {
	f := newLetterFiles(t)
	removed := deadLetter(t, f.Queue, "A")
	f.drop(append(f.larges(7), removed)...)
	f.larges(2) // the second is in the next file
	f.kill()
	require.False(t, f.has(removed))
	f.kill()
	require.True(t, f.has(removed))
	require.Nil(t, letterOf(t, f.Queue, "A"))
	a := requireBalanced(t, f.Queue)
	require.Equal(t, []uint64{3, 1}, []uint64{a.Letters, uint64(a.Unnamed)})
}

// The removal of the last letter of a file leaves no mark. The file goes, unless it has marks
// of removals in earlier files (nats-server 2.15.3).
func TestTheLastLetterOfAFileThatCameBackAfterAKill(t *testing.T) {
	f := newLetterFiles(t)
	early := deadLetter(t, f.Queue, "A")
	f.larges(8)
	second := f.larges(1) // in the second file
	f.drop(early)         // the mark is there, too
	second = append(second, f.larges(7)...)
	f.larges(1) // in the third file
	f.drop(second...)
	last := second[len(second)-1]
	require.False(t, f.has(last))
	f.kill()
	require.False(t, f.has(second[0]))
	require.True(t, f.has(last))
	require.Nil(t, letterOf(t, f.Queue, last.OrderNo))
	a := requireBalanced(t, f.Queue)
	require.Equal(t, []uint64{10, 1}, []uint64{a.Letters, uint64(a.Unnamed)})
}
