package books

import (
	"os"
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
