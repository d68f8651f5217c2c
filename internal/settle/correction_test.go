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

// A permission is for the body in doubt, whoever uses its ID.
func TestR6AnotherBodyUsesNoPermission(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	slow.Ledger.ExportSetStore(&meanwhile{Store: slow.Ledger.ExportStore(), beforePublish: func() {
		withhold(t, q, correction("replay:1"))
	}})
	_, err := slow.Operator.Replay(t.Context(), l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna})
	require.ErrorContains(t, err, "used the ID of this replay")
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

// A frozen worker finds out that the order exists.
func TestR4ALateAcceptanceKeepsTheLetterOfACorrection(t *testing.T) {
	a, b, frozen, taken := twoOwners(t)
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

// The correction is withdrawn before a worker sees it, and then a person finds out what
// became of the first body.
func TestR4AWordRemovesTheLetterBeforeAWithdrawal(t *testing.T) {
	for _, as := range []order.Outcome{order.OutcomeAccepted, order.OutcomeRejected} {
		t.Run(as.String(), func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			doubtful(t, q)
			withdrawn(t, q, correction("i2"))
			rec := lookup(t, q, "A-1")
			require.Equal(t, order.OutcomeUnknown, rec.Outcome())
			require.Equal(t, hashOf(t, body("A-1")), rec.BodyHash, "the first body is in doubt")
			require.Equal(t, "march.csv:7", rec.Source)
			require.Equal(t, "april.csv:9", rec.Conflicts[0].Source)
			_, err := q.Operator.Resolve(t.Context(), "A-1", "", as, anna)
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
	slow.Ledger.ExportSetStore(&slowWriter{Store: slow.Ledger.ExportStore(), meanwhile: func() {
		entry, err := q.Ledger.Lookup(t.Context(), "A-1")
		require.NoError(t, err)
		settled := *entry.Record
		settled.SetOutcome(order.OutcomeRejected)
		settled.Unsure, settled.By = false, "ben"
		_, err = q.Ledger.ExportStore().PutRecord(t.Context(), l.Token(), &settled, entry.Seq)
		require.NoError(t, err)
	}})
	got, err := slow.Operator.Replay(t.Context(), l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna})
	require.NoError(t, err)
	require.Equal(t, settle.ReplayGone, got)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "A-1").Outcome())
	require.Empty(t, lookup(t, q, "A-1").AllowedFor)
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

// permitted replays the letter of an order in doubt. It returns the replay's delivery.
func permitted(t *testing.T, q *queue.Queue, l *settle.Letter) *settle.Delivery {
	t.Helper()
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	return pull(t, q, 1)[0]
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

// The order is sent again with a permission, and its worker is frozen. Another one is refused,
// and a correction is withheld. Then the frozen one learns that the API knows the order_no.
func TestR4ALateDuplicateMakesTheWithheldOneAConflict(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	doubtful(t, a)
	frozen := permitted(t, a, letterOf(t, a, "A-1"))
	taken := again(t, frozen, b)
	settleAs(t, b, taken, report(order.Rejected, taken.History))
	requireDrained(t, b)
	withheld(t, b)
	frozen.Lease().ExportEndNow()
	settleAs(t, a, frozen, report(order.Duplicate, frozen.History))
	requireConflict(t, b)
}

// A person's word was corrected by a colleague while she was held up, and the next
// correction has failed since. Its letter stays.
func TestR4ASlowWordLeavesALaterLetter(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	doubtful(t, q)
	reached, goOn := make(chan struct{}), make(chan struct{})
	slow.Ledger.ExportSetStore(&slowRemoval{Store: slow.Ledger.ExportStore(), reached: reached, goOn: goOn})
	done := make(chan error)
	go func() {
		_, err := slow.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
		done <- err
	}()
	<-reached
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, settle.Person{Name: "ben"})
	require.NoError(t, err)
	publish(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	close(goOn)
	require.NoError(t, <-done)
	require.Equal(t, "i2", letterOf(t, q, "A-1").IntentID)
	requireBalanced(t, q)
}

// The first submission can never be sent, and yet is in doubt, because nobody knows what its
// first worker did. Its record names no body.
func TestR4ACorrectionOfWhatCannotBeSentKeepsItsLetter(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":"x"}`), ID: "i1"})
	d := again(t, pull(t, q, 1)[0], q)
	require.Equal(t, settle.WorkInvalid, d.Work)
	settleAs(t, q, d, order.Report{End: order.EndInvalid, Error: d.Invalid.Error(), History: d.History})
	requireDrained(t, q)
	withheld(t, q)
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.Equal(t, correction("").Body, letterOf(t, q, "A-1").Body)
	require.True(t, letterOf(t, q, "A-1").Conflict)
}

// A person resolves the letter that she sees, after the correction was withdrawn.
func TestResolveLetterBehindAWithdrawal(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	doubtful(t, q)
	l := letterOf(t, q, "A-1")
	withdrawn(t, q, correction("i2"))
	would, err := books.DryRunResolve(t.Context(), q, []*settle.Letter{l}, settle.Person{})
	require.NoError(t, err)
	require.NoError(t, would[0])
	gone, err := q.Operator.ResolveLetter(t.Context(), l, order.OutcomeAccepted, anna)
	require.NoError(t, err)
	require.False(t, gone)
	requireNoLetter(t, q, "A-1")
}
