package books

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// A letter that was replaced leaves no trace of its removal in the broker's files. If its
// successor is removed and the broker is killed, the first one is there again (nats-server
// 2.15.2). The audit names it, a replay sends nothing, and a person drops it.
func TestALetterThatCameBackAfterAKill(t *testing.T) {
	f := newLetterFiles(t)
	first := deadLetter(t, f.Queue, "A-1")
	for _, v := range []order.Verdict{order.Rejected, order.Accepted} {
		publish(t, f.Queue, intent("A-1", v.String()))
		d := pull(t, f.Queue, 1)[0]
		settleAs(t, f.Queue, d, report(v, d.History))
		requireDrained(t, f.Queue)
	}
	require.False(t, f.has("A-1"))
	f.kill()
	back := letterOf(t, f.Queue, "A-1")
	require.Equal(t, first.Seq, back.Seq)
	a, err := Audit(t.Context(), f.Queue)
	require.NoError(t, err)
	require.Equal(t, []Offender{{"A-1", "accepted, but a dead letter is left"}}, a.Offenders)
	require.Equal(t, settle.ReplayAccepted, replay(t, f.Queue, back, settle.ReplayOptions{}))
	f.drop(back)
	a, err = Audit(t.Context(), f.Queue)
	require.NoError(t, err)
	require.True(t, a.Balanced(), a.Offenders)
}

// letterFiles is a queue on a broker that can be killed, with dead letters in its files.
type letterFiles struct {
	t   *testing.T
	dir string
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
	killed := f.t.TempDir()
	require.NoError(f.t, os.CopyFS(killed, os.DirFS(f.dir)))
	require.NoError(f.t, os.Chmod(killed+"/token", 0o600))
	f.dir = killed
	f.start()
}

// large files a letter of nearly a mebibyte. Four go into one of the broker's files.
func (f *letterFiles) large(no string) *settle.Letter {
	f.t.Helper()
	text, err := json.Marshal(map[string]string{"order_no": no, "memo": strings.Repeat("x", 1<<20-70_000)})
	require.NoError(f.t, err)
	publish(f.t, f.Queue, settle.Intent{OrderNo: no, Body: text, ID: no})
	d := pull(f.t, f.Queue, 1)[0]
	settleAs(f.t, f.Queue, d, report(order.Rejected, d.History))
	requireDrained(f.t, f.Queue)
	return letterOf(f.t, f.Queue, no)
}

// drop removes letters, one after the other.
func (f *letterFiles) drop(letters ...*settle.Letter) {
	f.t.Helper()
	for _, l := range letters {
		_, err := f.Operator.Drop(f.t.Context(), l, settle.Person{Name: "anna"})
		require.NoError(f.t, err)
	}
}

func (f *letterFiles) has(no string) bool {
	f.t.Helper()
	l, err := f.Ledger.Letter(f.t.Context(), no)
	require.NoError(f.t, err)
	return l != nil
}

// A letter whose removal was confirmed is there again after two kills, if the file that has it
// shrinks by half while the broker reads it (nats-server 2.15.3). The broker then rewrites the
// file without the marks of the removals that it has not come to yet. It still knows of them,
// until it is killed again.
func TestARemovedLetterThatCameBackAfterTwoKills(t *testing.T) {
	f := newLetterFiles(t)
	removed := deadLetter(t, f.Queue, "A")
	f.drop(f.large("1"), f.large("2"), f.large("3"), removed)
	f.large("4")
	f.large("5") // in the next file
	f.kill()
	require.False(t, f.has("A"))
	f.kill()
	require.True(t, f.has("A"))
}

// The removal of the last letter of a file leaves no mark. The file goes, unless it has marks
// of removals in earlier files (nats-server 2.15.3).
func TestTheLastLetterOfAFileThatCameBackAfterAKill(t *testing.T) {
	f := newLetterFiles(t)
	early := deadLetter(t, f.Queue, "A")
	for _, no := range []string{"1", "2", "3", "4"} {
		f.large(no)
	}
	second := []*settle.Letter{f.large("5")} // in the second file
	f.drop(early)                            // the mark is there, too
	for _, no := range []string{"6", "7", "8"} {
		second = append(second, f.large(no))
	}
	f.large("9") // in the third file
	f.drop(second...)
	require.False(t, f.has("8"))
	f.kill()
	require.False(t, f.has("7"))
	require.True(t, f.has("8"))
}
