package settle_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// R4: a newer letter replaces an older one. If the worker is killed in between,
// the old letter still has its own body.
func TestR4AReplacedLetterNeverMixesBodies(t *testing.T) {
	s := startBroker(t, func(c *embedded.Config) { c.MaxPayload = 1 << 20 })
	q := openQueue(t, s, "a")
	big := func(id string, fill byte) *settle.Letter {
		return &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected, IntentID: id, Subject: "orders.new.A-1",
			FiledAt: time.Now().UTC(), Body: bytes.Repeat([]byte{fill}, 1<<20-1000)}
	}
	first, second := big("i1", 'a'), big("i2", 'b')
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	require.NoError(t, q.Worker.ExportFileLetter(t.Context(), d, first))
	require.ErrorIs(t, q.Ledger.ExportStore().PutLetter(t.Context(), "A-1", second, &settle.Letter{Seq: 99}), settle.ErrStale) // its tail is there, its head is not
	require.Equal(t, first.Body, letterOf(t, q, "A-1").Body)

	require.NoError(t, q.Worker.ExportFileLetter(t.Context(), d, second))
	got := letterOf(t, q, "A-1")
	require.Equal(t, second.Body, got.Body)
	require.Equal(t, "i1", got.Earlier[0].IntentID)
	info, err := s.JetStream(t).Stream(t.Context(), "ORDERS_DEAD")
	require.NoError(t, err)
	require.EqualValues(t, 2, info.CachedInfo().State.Msgs, "one letter in two parts")
}

// R4: a producer publishes an intent again under its ID, after another intent of
// the order_no was cancelled. It is handled again, and its letter says what
// became of it now. Found by the simulation.
func TestR4ALetterFollowsAnIntentThatIsHandledAgain(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	forgetIDs(t, s)
	publish(t, q, settle.Intent{OrderNo: "A-1", ID: "i1", Body: []byte(`{"order_no":"A-1"}`)})
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkInvalid, d.Work)
	settleAs(t, q, d, order.Report{End: order.EndInvalid})
	requireDrained(t, q)
	require.Equal(t, order.OutcomeInvalid, letterOf(t, q, "A-1").Outcome)

	withdrawn(t, q, covered("A-1", "i2"))
	publishAgain(t, q, intent("A-1", "i1"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)

	l := letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeRejected, l.Outcome)
	require.Equal(t, body("A-1"), l.Body, "a replay sends what was rejected")
	require.Equal(t, order.OutcomeInvalid, l.Earlier[0].Outcome)

	publishAgain(t, q, intent("A-1", "i1"))
	require.NoError(t, q.Worker.Complete(t.Context(), pull(t, q, 1)[0]))
	requireDrained(t, q)
	require.Equal(t, l.Seq, letterOf(t, q, "A-1").Seq, "what is only counted keeps its letter")
	requireBalanced(t, q)
}

// R4, R7: a worker whose claim has ended files no letter. The order may have
// been accepted meanwhile, and nobody would remove the letter.
func TestR4NoLetterIsFiledOnceTheClaimIsOver(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	stored := settleAs(t, q, d, report(order.Rejected, d.History))
	require.Equal(t, order.OutcomeRejected, stored.Record.Outcome())
	requireDrained(t, q)
	require.NoError(t, q.Ledger.ExportStore().DeleteLetter(t.Context(), "A-1", letterOf(t, q, "A-1")))
	d.Lease().ExportEndNow()
	require.NoError(t, q.Worker.ExportComplete(t.Context(), d, stored, nil), "left to the next owner")
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Letters)
}

// R4, R7: a frozen worker acknowledged the intent late, while its next owner was
// about to file the letter. The order was replayed and failed again. Its letter
// stays. Found by the simulation.
func TestR4AnIntentThatIsGoneReplacesNoLetter(t *testing.T) {
	s := startBroker(t)
	slow, q := openQueue(t, s, "slow"), openQueue(t, s, "w1")
	publish(t, q, intent("A-1", "i1"))
	first := pull(t, slow, 1)[0]
	stored := settleAs(t, slow, first, report(order.Rejected, first.History))
	requireDrained(t, q)
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	require.NoError(t, slow.Worker.ExportComplete(t.Context(), first, stored, nil))
	require.Equal(t, "i2", letterOf(t, q, "A-1").IntentID)
}
