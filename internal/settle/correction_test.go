package settle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/deadletter"
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
	return withhold(t, q, correction("i2"))
}

// withhold publishes an intent, which is withheld. It returns the letter.
func withhold(t *testing.T, q *queue.Queue, in settle.Intent) *settle.Letter {
	t.Helper()
	publish(t, q, in)
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, q)
	return letterOf(t, q, "A-1")
}

// requireConflict checks that A-1 is accepted with its first body, and that the letter
// holds the correction.
func requireConflict(t *testing.T, q *queue.Queue) {
	t.Helper()
	rec, l := lookup(t, q, "A-1"), letterOf(t, q, "A-1")
	requireLetters(t, q, 1)
	require.Equal(t, order.OutcomeAccepted, rec.Outcome())
	require.Equal(t, hashOf(t, body("A-1")), rec.BodyHash)
	require.NotNil(t, l, "the correction is lost")
	require.True(t, l.Conflict)
	require.Equal(t, correction("").Body, l.Body)
	require.Equal(t, hashOf(t, l.Body), l.BodyHash)
	refused := rec.ConflictOf(l.IntentID)
	require.NotNil(t, refused)
	require.Equal(t, []string{"b2", "april.csv:9"}, []string{refused.Batch, refused.Source})
	requireBalanced(t, q)
}

// While the order is in doubt, nobody can permit another body: no answer would tell which of the two
// the API has. When a person says that the order does not exist, the correction may follow.
func TestR3OnlyTheBodyInDoubtCanBePermitted(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	l := withheld(t, q)
	require.Equal(t, settle.ReplayOtherInDoubt, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	rec := lookup(t, q, "A-1")
	require.Equal(t, []string{"b1:A-1", hashOf(t, body("A-1")), "b1"}, []string{rec.IntentID, rec.BodyHash, rec.Batch}, "the first body is in doubt")
	require.Empty(t, rec.AllowedFor)
	requireBalanced(t, q)
	gone, err := q.Operator.ResolveLetter(t.Context(), l, order.OutcomeRejected, anna)
	require.NoError(t, err)
	require.False(t, gone)
	left := lettersOf(t, q, "A-1")
	require.Len(t, left, 1)
	require.Equal(t, l.Seq, left[0].Seq, "nobody said what becomes of the correction")
	requireBalanced(t, q)
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.False(t, d.History.Unsure)
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	requireNoLetter(t, q, "A-1")
	require.Equal(t, hashOf(t, correction("").Body), lookup(t, q, "A-1").BodyHash)
	requireBalanced(t, q)
}

// A person finds out that the order exists.
func TestR4AWordKeepsTheLetterOfACorrection(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	withheld(t, q)
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	requireConflict(t, q)
}

// The broker forgets the correction's id and stores it a second time.
func TestR11AWithheldIntentThatIsStoredAgainKeepsItsLetter(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	forgetIDs(t, s)
	doubtful(t, q)
	l := withheld(t, q)
	publishAgain(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	require.Equal(t, l.Seq, letterOf(t, q, "A-1").Seq)
	requireBalanced(t, q)
}

// inDoubtFor leaves A-1 in doubt, because its first worker is frozen. It returns that one's
// delivery.
func inDoubtFor(t *testing.T, a, b *queue.Queue) *settle.Delivery {
	t.Helper()
	publish(t, a, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b1:A-1", Batch: "b1", Source: "march.csv:7"})
	frozen := pull(t, a, 1)[0]
	taken := again(t, frozen, b)
	settleAs(t, b, taken, report(order.Rejected, taken.History))
	requireDrained(t, b)
	return frozen
}

// requireNames checks which intent and import the accepted record of A-1 names.
func requireNames(t *testing.T, q *queue.Queue, id, batch string) {
	t.Helper()
	rec := lookup(t, q, "A-1")
	require.Equal(t, []string{id, batch}, []string{rec.IntentID, rec.Batch})
}

// correcting publishes the correction after a person said, too soon, that the order does not exist. It
// returns its delivery.
func correcting(t *testing.T, q *queue.Queue) *settle.Delivery {
	t.Helper()
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, settle.Person{Name: "ben"})
	require.NoError(t, err)
	publish(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	return d
}

// While the correction is being withheld, or sent after a person's word, the API's answer to the
// first attempt arrives. It stands, whatever becomes of the correction.
func TestR1AnAcceptanceStandsWhileItsCorrectionIsHandled(t *testing.T) {
	for _, v := range []order.Verdict{0, order.Rejected, order.Duplicate} {
		t.Run(v.String(), func(t *testing.T) {
			s := startBroker(t)
			a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
			frozen := inDoubtFor(t, a, b)
			if v == 0 {
				publish(t, b, correction("i2"))
				d := pull(t, b, 1)[0]
				settleAs(t, a, frozen, report(order.Accepted, frozen.History))
				_, err := b.Worker.Refuse(t.Context(), d)
				require.NoError(t, err)
			} else {
				d := correcting(t, b)
				settleAs(t, a, frozen, report(order.Accepted, frozen.History))
				settleAs(t, b, d, report(v, d.History))
			}
			requireDrained(t, b)
			requireNames(t, b, "b1:A-1", "b1")
			require.NotNil(t, lookup(t, b, "A-1").ConflictOf("i2"))
			require.True(t, letterOf(t, b, "A-1").Conflict)
			require.Equal(t, correction("").Body, letterOf(t, b, "A-1").Body)
			requireBalanced(t, b)
		})
	}
}

// A person says that the order exists. Then the API's own late acceptance arrives. No later
// word may replace that one.
func TestR1AnAcceptanceByTheAPIOutlivesAWord(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	frozen := inDoubtFor(t, a, b)
	_, err := b.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	_, err = b.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, settle.Person{Name: "ben"})
	require.ErrorIs(t, err, settle.ErrNotInDoubt, "the API confirmed it")
}

// A late acceptance lists an intent that is pending, with another body. Whoever comes next stores its letter: its
// worker, whatever that one heard from the API, the worker of its next delivery, or the one that removes it.
func TestR4TheLetterOfAPendingConflictIsStored(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, q *queue.Queue, d *settle.Delivery){
		"by its worker, which was refused": func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			settleAs(t, q, d, report(order.Rejected, d.History))
		},
		"by its worker, which was refused and lost its claim": func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			d.Lease().ExportEndNow()
			settleAs(t, q, d, report(order.Rejected, d.History))
			require.NoError(t, d.ExportAnswer().Ack())
		},
		"by its worker, which is in doubt": func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			r := report(order.Unsure, d.History)
			r.End, r.History.Unsure = order.EndTotalBudget, true
			settleAs(t, q, d, r)
		},
		"by its worker, which would try again": func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			settleAs(t, q, d, report(order.Retry, d.History))
		},
		"by its next delivery": func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			d = again(t, d, q)
			require.Equal(t, settle.WorkSettled, d.Work)
			require.NoError(t, q.Worker.Complete(t.Context(), d))
		},
		"by the trimmer": func(t *testing.T, q *queue.Queue, d *settle.Delivery) { // a frozen worker acknowledged it
			require.NoError(t, d.ExportAnswer().Ack())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
			frozen := inDoubtFor(t, a, b)
			d := correcting(t, b)
			attempting(t, b, d)
			settleAs(t, a, frozen, report(order.Accepted, frozen.History))
			require.NotNil(t, lookup(t, b, "A-1").ConflictOf("i2"))
			requireNoLetter(t, b, "A-1")
			require.Equal(t, 1, stored(t, b))
			next(t, b, d)
			requireDrained(t, b)
			require.False(t, b.Trimmer.Strands())
			requireConflict(t, b)
		})
	}
}

// The first body was said to exist, because the API called it a duplicate, and a repetition of it is about to be counted.
// Then the API's late answer says that it has the correction's. The repetition does not take that back: it is a
// conflict.
func TestR1ARepetitionDoesNotReplaceWhatTheAPISaid(t *testing.T) {
	s := startBroker(t)
	a, b, c := openQueue(t, s, "a"), openQueue(t, s, "b"), openQueue(t, s, "c")
	frozen := inDoubtFor(t, a, b)
	second := correcting(t, c)
	attempting(t, c, second)
	known := report(order.Duplicate, frozen.History)
	known.History.Unsure = true // its first attempt had no answer
	settleAs(t, a, frozen, known)
	require.NotNil(t, lookup(t, b, "A-1").ConflictOf("i2"))
	taken := again(t, second, b)
	require.Equal(t, settle.WorkSettled, taken.Work)
	require.NoError(t, b.Worker.Complete(t.Context(), taken))
	requireDrained(t, b)
	requireConflict(t, b)
	publish(t, b, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "i3"})
	d := pull(t, b, 1)[0]
	require.Equal(t, settle.WorkRepeat, d.Work)
	settleAs(t, c, second, report(order.Accepted, second.History))
	require.Equal(t, hashOf(t, correction("").Body), lookup(t, b, "A-1").BodyHash)

	_, err := b.Worker.Repeat(t.Context(), d)
	require.Error(t, err, "its next delivery decides")
	d = again(t, d, b)
	require.Equal(t, settle.WorkConflict, d.Work)
	_, err = b.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, b)
	rec := lookup(t, b, "A-1")
	require.Equal(t, hashOf(t, correction("").Body), rec.BodyHash)
	require.NotNil(t, rec.ConflictOf("i3"))
	require.Equal(t, body("A-1"), letterOf(t, b, "A-1").Body)
	requireBalanced(t, b)
}

// A person resolves the letter that she sees, after the correction was withdrawn; one that she saw before does not count.
func TestResolveLetterBehindAWithdrawal(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	before := letterOf(t, q, "A-1")
	withdrawn(t, q, correction("i2"))
	gone, err := q.Operator.ResolveLetter(t.Context(), before, order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.True(t, gone)
	l := letterOf(t, q, "A-1")
	would, err := deadletter.DryRunResolve(t.Context(), q, []*settle.Letter{l}, settle.Person{})
	require.NoError(t, err)
	require.NoError(t, would[0])
	gone, err = q.Operator.ResolveLetter(t.Context(), l, order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.False(t, gone)
	requireNoLetter(t, q, "A-1")
}
