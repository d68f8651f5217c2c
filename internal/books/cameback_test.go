package books

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// A letter that was replaced leaves no trace of its removal in the broker's files. If its
// successor is removed and the broker is killed, the first one is there again (nats-server
// 2.15.2). The audit names it, a replay sends nothing, and a person drops it.
func TestALetterThatCameBackAfterAKill(t *testing.T) {
	running, killed := t.TempDir(), t.TempDir()
	q := openQueue(t, startBroker(t, func(c *embedded.Config) { c.Dir, c.NoSync = running, false }), "a")
	deadLetter(t, q, "A-2") // else the file is empty in the end, and goes
	first := deadLetter(t, q, "A-1")
	for _, v := range []order.Verdict{order.Rejected, order.Accepted} {
		publish(t, q, intent("A-1", v.String()))
		d := pull(t, q, 1)[0]
		settleAs(t, q, d, report(v, d.History))
		requireDrained(t, q)
	}
	none, err := q.Ledger.Letter(t.Context(), "A-1")
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, os.CopyFS(killed, os.DirFS(running))) // what a broker leaves that is killed now
	require.NoError(t, os.Chmod(killed+"/token", 0o600))

	q = openQueue(t, startBroker(t, func(c *embedded.Config) { c.Dir, c.NoSync = killed, false }), "b")
	back := letterOf(t, q, "A-1")
	require.Equal(t, first.Seq, back.Seq)
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, []Offender{{"A-1", "accepted, but a dead letter is left"}}, a.Offenders)
	require.Equal(t, settle.ReplayAccepted, replay(t, q, back, settle.ReplayOptions{}))
	_, err = q.Operator.Drop(t.Context(), back, settle.Person{Name: "anna"})
	require.NoError(t, err)
	a, err = Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), a.Offenders)
}

// A letter whose removal was confirmed is there again after two kills, if the file that has it
// shrinks by half while the broker reads it (nats-server 2.15.3). The broker then rewrites the
// file without the marks of the removals that it has not come to yet. It still
// knows of them, until it is killed again.
func TestARemovedLetterThatCameBackAfterTwoKills(t *testing.T) {
	dir := t.TempDir()
	q := openQueue(t, startBroker(t, func(c *embedded.Config) { c.Dir, c.NoSync = dir, false }), "a")
	deadLetter(t, q, "KEPT")
	removed := deadLetter(t, q, "A-1")
	large := func(no string) *settle.Letter {
		t.Helper()
		text, err := json.Marshal(map[string]string{"order_no": no, "memo": strings.Repeat("x", 1<<20-70_000)})
		require.NoError(t, err)
		publish(t, q, settle.Intent{OrderNo: no, Body: text, ID: no})
		d := pull(t, q, 1)[0]
		settleAs(t, q, d, report(order.Rejected, d.History))
		requireDrained(t, q)
		return letterOf(t, q, no)
	}
	for _, l := range []*settle.Letter{large("B-1"), large("B-2"), large("B-3"), removed} { // in this order
		_, err := q.Operator.Drop(t.Context(), l, settle.Person{Name: "anna"})
		require.NoError(t, err)
	}
	for _, no := range []string{"B-4", "B-5"} { // the second one is in the next file, of 4 MiB each
		large(no)
	}

	for kills, back := range []bool{false, true} {
		killed := t.TempDir()
		require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
		require.NoError(t, os.Chmod(killed+"/token", 0o600))
		dir = killed
		q = openQueue(t, startBroker(t, func(c *embedded.Config) { c.Dir, c.NoSync = dir, false }), "b")
		l, err := q.Ledger.Letter(t.Context(), "A-1")
		require.NoError(t, err)
		require.Equal(t, back, l != nil, "after %d kills", kills+1)
	}
}
