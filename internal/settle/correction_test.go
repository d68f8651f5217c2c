package settle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// An order is in doubt, and a producer publishes a correction of it. The API has the first
// body, or none. These tests were led to by the simulation.

// correction returns another body for order A-1, as an import of its own publishes it.
func correction(id string) settle.Intent {
	return settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`), ID: id, Batch: "b2", Source: "april.csv:9"}
}

func hashOf(t *testing.T, body []byte) string {
	t.Helper()
	parsed, err := order.Parse(body)
	require.NoError(t, err)
	return parsed.BodyHash()
}

// doubtful leaves order A-1 in doubt with its first body.
func doubtful(t *testing.T, q *queue.Queue) { deadLetter(t, q, "A-1", exhaustedInDoubt()) }

// withheld publishes the correction, which is withheld.
func withheld(t *testing.T, q *queue.Queue) *settle.Letter {
	t.Helper()
	publish(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	_, err := q.Refuse(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, q)
	return letterOf(t, q, "A-1")
}

// requireConflict checks that A-1 is accepted with its first body, and that the letter
// holds the correction.
func requireConflict(t *testing.T, q *queue.Queue) {
	t.Helper()
	rec, l := lookup(t, q, "A-1"), letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeAccepted, rec.Outcome())
	require.Equal(t, hashOf(t, body("A-1")), rec.BodyHash)
	require.NotNil(t, l, "the correction is lost")
	require.True(t, l.Conflict)
	require.Equal(t, correction("").Body, l.Body)
	require.Equal(t, hashOf(t, l.Body), l.BodyHash)
	require.Equal(t, order.OutcomeUnknown, l.Earlier[0].Outcome)
	refused := rec.ConflictOf(l.IntentID)
	require.NotNil(t, refused)
	require.Equal(t, []string{"b2", "april.csv:9"}, []string{refused.Batch, refused.Source})
	requireBalanced(t, q)
}

// A person permits the correction to be sent, and the API answers that it knows the
// order_no: it has the first body.
func TestR3AnAcceptanceNamesTheBodyThatWasInDoubt(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	l := withheld(t, q)
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Duplicate, d.History))
	requireDrained(t, q)
	requireConflict(t, q)
}

// The API refuses the correction, which proves nothing about the first body.
func TestR3ARefusedCorrectionLeavesTheDoubtToTheFirstBody(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	l := withheld(t, q)
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	rec := lookup(t, q, "A-1")
	require.Equal(t, order.OutcomeUnknown, rec.Outcome())
	require.Equal(t, hashOf(t, body("A-1")), rec.BodyHash)
	_, err := q.Resolve(t.Context(), "A-1", 0, order.OutcomeAccepted, anna)
	require.NoError(t, err)
	requireConflict(t, q)
}

// A person finds out that the order exists.
func TestR4AWordKeepsTheLetterOfACorrection(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	withheld(t, q)
	_, err := q.Resolve(t.Context(), "A-1", 0, order.OutcomeAccepted, anna)
	require.NoError(t, err)
	requireConflict(t, q)
}

// A frozen worker finds out that the order exists.
func TestR4ALateAcceptanceKeepsTheLetterOfACorrection(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	frozen := pull(t, a, 1)[0]
	taken := again(t, frozen, b)
	settleAs(t, b, taken, report(order.Rejected, taken.History))
	requireDrained(t, b)
	withheld(t, b)
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	requireConflict(t, b)
}

// The broker forgets the correction's id and stores it a second time.
func TestR11AWithheldIntentThatIsStoredAgainKeepsItsLetter(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	doubtful(t, q)
	forgetIDs(t, s)
	l := withheld(t, q)
	publishAgain(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Complete(t.Context(), d))
	requireDrained(t, q)
	require.Equal(t, l, letterOf(t, q, "A-1"))
	requireBalanced(t, q)
}

// The correction is withdrawn before a worker sees it, and then a person finds out what
// became of the first body.
func TestR4AWordRemovesTheLetterBeforeAWithdrawal(t *testing.T) {
	for _, as := range []order.Outcome{order.OutcomeAccepted, order.OutcomeRejected} {
		t.Run(as.String(), func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			doubtful(t, q)
			publish(t, q, correction("i2"))
			c, err := books.CancelBatch(t.Context(), q, "b2", "anna")
			require.NoError(t, err)
			require.Equal(t, 1, c.Withdrawn)
			rec := lookup(t, q, "A-1")
			require.Equal(t, order.OutcomeUnknown, rec.Outcome())
			require.Equal(t, hashOf(t, body("A-1")), rec.BodyHash, "the first body is in doubt")
			require.Equal(t, "april.csv:9", rec.Source)
			_, err = q.Resolve(t.Context(), "A-1", 0, as, anna)
			require.NoError(t, err)
			requireNoLetter(t, q, "A-1")
			requireBalanced(t, q)
		})
	}
}

// A person permits another attempt. Meanwhile a colleague settled the order, and was held up
// before the letter was removed.
func TestR5ALetterThatAColleagueIsAboutToRemoveIsNotReplayed(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	slow.ExportSetStore(&slowWriter{Store: slow.ExportStore(), meanwhile: func() {
		entry, err := q.Lookup(t.Context(), "A-1")
		require.NoError(t, err)
		settled := *entry.Record
		settled.SetOutcome(order.OutcomeRejected)
		settled.Unsure, settled.By = false, "ben"
		_, err = q.ExportStore().PutRecord(t.Context(), l.Token(), &settled, entry.Seq)
		require.NoError(t, err)
	}})
	got, err := slow.Replay(t.Context(), l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna})
	require.NoError(t, err)
	require.Equal(t, settle.ReplayGone, got)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "A-1").Outcome())
	require.False(t, lookup(t, q, "A-1").Allowed)
}
