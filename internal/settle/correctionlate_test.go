package settle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// deafAnswer is the answer of a worker that dies before its ack.
type deafAnswer struct{}

func (deafAnswer) Ack() error                       { return nil }
func (deafAnswer) Nak() error                       { return nil }
func (deafAnswer) NakWithDelay(time.Duration) error { return nil }

// X (body 1) was posted by a frozen worker and is in doubt. W (body 1 again, under a new ID) is withheld while X's
// late acceptance arrives. W's worker dies before its ack, and W is delivered again.
func TestR11ARepetitionOfTheFirstBodyIsCountedOnce(t *testing.T) {
	for name, before := range map[string]bool{"before W's record": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
			frozen := inDoubtFor(t, a, b) // X = b1:A-1, body 1
			publish(t, b, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b3:1", Batch: "b3"})
			w := pull(t, b, 1)[0]
			require.Equal(t, settle.WorkWithheld, w.Work)
			if before {
				settleAs(t, a, frozen, report(order.Accepted, frozen.History))
			}
			real := w.ExportAnswer()
			w.ExportSetAnswer(deafAnswer{}) // the worker dies before its ack
			_, err := b.Worker.Refuse(t.Context(), w)
			require.NoError(t, err)
			if !before {
				settleAs(t, a, frozen, report(order.Accepted, frozen.History))
			}
			w.ExportSetAnswer(real)
			w = again(t, w, b)
			if w.Work == settle.WorkRepeat {
				_, err = b.Worker.Repeat(t.Context(), w)
			} else {
				err = b.Worker.Complete(t.Context(), w)
			}
			require.NoError(t, err)
			requireDrained(t, b)
			requireBalanced(t, b)
		})
	}
}

// correctionInDoubt sends the correction after a person said, too soon, that the order does not
// exist. Its attempts end in doubt.
func correctionInDoubt(t *testing.T, q *queue.Queue) {
	t.Helper()
	d := correcting(t, q)
	r := report(order.Unsure, d.History)
	r.End, r.History.Unsure = order.EndTotalBudget, true
	settleAs(t, q, d, r)
}

// acceptedByWord leaves order A-1 accepted by a person's word, with the correction's body, while
// a is frozen with the first body.
func acceptedByWord(t *testing.T) (a, b *queue.Queue, frozen *settle.Delivery) {
	t.Helper()
	s := startBroker(t)
	a, b = openQueue(t, s, "a"), openQueue(t, s, "b")
	frozen = inDoubtFor(t, a, b)
	correctionInDoubt(t, b)
	requireDrained(t, b)
	_, err := b.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	return a, b, frozen
}

// A person resolves the first letter behind a withdrawal. After her program has read the
// letter again, another correction is withheld. Her word does not cover that one.
func TestR5AWordBehindAWithdrawalDoesNotCoverALaterCorrection(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	doubtful(t, q)
	l := letterOf(t, q, "A-1")
	withdrawn(t, q, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"3"}`), ID: "i3", Batch: "b3"})
	slow.Ledger.ExportSetStore(&meanwhile{Store: slow.Ledger.ExportStore(), afterLetter: func() { withheld(t, q) }})
	gone, err := slow.Operator.ResolveLetter(t.Context(), l, order.OutcomeRejected, anna)
	require.NoError(t, err)
	left := letterOf(t, q, "A-1")
	require.False(t, gone)
	require.NotNil(t, left, "the only copy of the correction is lost")
	require.Equal(t, "i2", left.IntentID)
}

// X (body 1) was posted by a frozen worker, and its correction (body 2) is in doubt, too. An
// intent with body 1 is withdrawn, and its record follows. X's late acceptance makes a conflict
// of the correction, as it would have done before: nothing else holds body 2.
func TestR4ALateAcceptanceKeepsTheCorrectionBeforeAWithdrawal(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	frozen := inDoubtFor(t, a, b)
	correctionInDoubt(t, b)
	requireDrained(t, b)
	withdrawn(t, b, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b3:1", Batch: "b3"})
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	require.Equal(t, hashOf(t, body("A-1")), lookup(t, b, "A-1").BodyHash)
	l := letterOf(t, b, "A-1")
	require.NotNil(t, l, "the correction is lost")
	require.True(t, l.Conflict)
	require.Equal(t, correction("").Body, l.Body)
	requireBalanced(t, b)
}

// The replay of a correction is refused as a duplicate (its record names the first body),
// and is stored again under its ID. Its worker dies before the ack: the books balance.
func TestR11ARefusedCorrectionThatIsStoredAgainBalances(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	forgetIDs(t, s)
	doubtful(t, q)
	withheld(t, q) // i2: record names the first body
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.NotNil(t, lookup(t, q, "A-1").ConflictOf("i2"))
	publishAgain(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	d.ExportSetAnswer(deafAnswer{})
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireBalanced(t, q)
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

// The same, with the correction's body named: the API says that it has the first.
func TestR1AnAcceptanceByTheAPICorrectsTheBodyOfAWord(t *testing.T) {
	a, b, frozen := acceptedByWord(t)
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	require.Equal(t, hashOf(t, body("A-1")), lookup(t, b, "A-1").BodyHash)
}

// Two workers are frozen: X's (body 1) and that of its permitted correction W1 (body 2). W2 is
// withheld. Both late answers arrive: each intent is counted once.
func TestR11TwoLateAcceptancesCountOnce(t *testing.T) {
	for _, v := range []order.Verdict{order.Accepted, order.Duplicate} {
		s := startBroker(t)
		a, b, c := openQueue(t, s, "a"), openQueue(t, s, "b"), openQueue(t, s, "c")
		frozen := inDoubtFor(t, a, b)
		second := correcting(t, c)
		taken := again(t, second, b)
		settleAs(t, b, taken, report(order.Rejected, taken.History))
		requireDrained(t, b)
		publish(t, b, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"3"}`), ID: "i3"})
		w := pull(t, b, 1)[0]
		_, err := b.Worker.Refuse(t.Context(), w)
		require.NoError(t, err)
		requireDrained(t, b)
		settleAs(t, a, frozen, report(order.Accepted, frozen.History))
		requireBalanced(t, b)
		settleAs(t, c, second, report(v, second.History))
		requireBalanced(t, b)
	}
}

// A withheld intent with the doubted body names its own import when another body turns out
// to exist.
func TestR6AConflictNamesItsOwnImport(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	frozen := inDoubtFor(t, a, b) // body 1
	correctionInDoubt(t, b)       // body 2, import b2
	requireDrained(t, b)
	in := correction("b4:1")
	in.Batch, in.Source = "b4", "may.csv:1"
	withhold(t, b, in)
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	rec := lookup(t, b, "A-1")
	c := rec.ConflictOf("b4:1")
	require.NotNil(t, c)
	require.Equal(t, []string{"b4", "may.csv:1"}, []string{c.Batch, c.Source})
}

// A person's word made a repetition of the first body a conflict. Then the API's late answer
// says that it has just that body.
func TestR4AConflictThatTheAPIAcceptedHasNoLetter(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	frozen := inDoubtFor(t, a, b)
	correctionInDoubt(t, b)
	requireDrained(t, b)
	withhold(t, b, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "i3"})
	_, err := b.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.True(t, letterOf(t, b, "A-1").Conflict)
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	require.Equal(t, hashOf(t, body("A-1")), lookup(t, b, "A-1").BodyHash)
	requireNoLetter(t, b, "A-1")
	requireBalanced(t, b)
}

// As above, but the repetition came after the person's word, and its worker dies before its
// acknowledgement: the intent is delivered again when the API has answered.
func TestR11AConflictThatTheAPIAcceptedIsCountedOnce(t *testing.T) {
	a, b, frozen := acceptedByWord(t)
	publish(t, b, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "i3", Batch: "b3"})
	d := pull(t, b, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	real := d.ExportAnswer()
	d.ExportSetAnswer(deafAnswer{})
	_, err := b.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	requireNames(t, b, "i3", "b3")
	require.Equal(t, "rejected", lookup(t, b, "A-1").Was, "it was told as a conflict")
	d.ExportSetAnswer(real)
	d = again(t, d, b)
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, b.Worker.Complete(t.Context(), d))
	requireDrained(t, b)
	requireNoLetter(t, b, "A-1")
	requireBalanced(t, b)
}

// Both bodies are in doubt, and a person says that the order exists. Before she removes the
// letter, the API's late answer says that it has the first body. The correction is a conflict,
// and nobody is owed its letter: she settled it.
func TestR4ALateAcceptanceBehindAPersonsWordOwesNoLetter(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	doubtful(t, q)
	first := lookup(t, q, "A-1")
	correctionInDoubt(t, q)
	requireDrained(t, q)
	id := lookup(t, q, "A-1").IntentID
	slow.Ledger.ExportSetStore(&meanwhile{Store: slow.Ledger.ExportStore(), beforeRemoval: func() {
		late := *first
		late.SetOutcome(order.OutcomeAccepted)
		late.Verdict, late.Unsure, late.WriteID, late.Letter = order.Accepted, false, "late", 0
		_, err := q.Ledger.ExportUpdateRecord(t.Context(), settle.FileToken("A-1"), func(cur *order.Record) (*order.Record, error) { return order.Merge(cur, &late), nil })
		require.NoError(t, err)
	}})
	_, err := slow.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.Equal(t, first.BodyHash, lookup(t, q, "A-1").BodyHash)
	require.NotNil(t, lookup(t, q, "A-1").ConflictOf(id))
	requireLetters(t, q, 0)
	requireBalanced(t, q)
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
