package audit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// TestTheAuditNamesContradictions that nothing is on its way to mend.
func TestTheAuditNamesContradictions(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	lost := deadLetter(t, q, "A-1")
	deadLetter(t, q, "A-2")
	require.NoError(t, q.Store().DeleteLetter(t.Context(), "A-1", lost.Seq))
	entry, err := q.Ledger.Lookup(t.Context(), "A-2")
	require.NoError(t, err)
	entry.Record.Letter = 0
	_, err = q.Store().PutRecord(t.Context(), "A-2", entry.Record, entry.Seq)
	require.NoError(t, err)
	deadLetter(t, q, "A-3")
	results, err := s.JetStream(t).Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	entry, err = q.Ledger.Lookup(t.Context(), "A-3")
	require.NoError(t, err)
	require.NoError(t, results.DeleteMsg(t.Context(), entry.Seq))
	written := deadLetter(t, q, "A-5")
	require.NoError(t, q.Store().DeleteLetter(t.Context(), "A-5", written.Seq))
	publish(t, q, intent("A-4", "i4"))    // something is on its way, so that each is looked at several times
	publish(t, q, intent("A-5", "again")) // its worker may be about to write the record that no letter belongs to

	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.False(t, a.Balanced())
	require.False(t, a.Unsure(), "it is sure of it")
	require.ElementsMatch(t, []Offender{
		{"A-1", fmt.Sprintf("outcome rejected, and the dead letter %d that it names is not stored (removed by hand?)", lost.Seq)},
		{"A-2", "outcome rejected without a dead letter"},
	}, a.Offenders)
	require.Equal(t, 2, a.Unnamed, "those of A-2 and A-3")
	require.EqualValues(t, 1, a.Missing())
}

// A stream of letters that is made again counts from 1 again: a letter is not another order's of that sequence.
func TestTheAuditTellsLettersOfOneSequenceApart(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	lost := deadLetter(t, q, "A-1")
	queuetest.Remake(t, s.Server, false, "ORDERS_DEAD")
	require.Equal(t, lost.Seq, deadLetter(t, q, "B-1").Seq)
	l := newAuditor(q, Options{Full: true, chunk: chunkSize})
	require.NoError(t, l.look(t.Context()))
	require.Len(t, l.a.Offenders, 1)
	require.Equal(t, "A-1", l.a.Offenders[0].OrderNo)
	require.Equal(t, []int{1, 0}, []int{int(l.a.Letters), l.a.Unnamed})
}

// TestTheAuditLeavesOutWhatCameLater: of an order that changes while the books
// are read it counts what belongs to its sum, or says that it cannot.
func TestTheAuditLeavesOutWhatCameLater(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	deadLetter(t, q, "A-1")
	later := func(change func()) *AuditResult {
		l := newAuditor(q, Options{Full: true, chunk: chunkSize})
		require.NoError(t, l.begin(t.Context()))
		require.NoError(t, l.readResults(t.Context()))
		require.NoError(t, l.readIntents(t.Context()))
		change()
		require.NoError(t, l.readLetters(t.Context()))
		require.NoError(t, l.readChanges(t.Context()))
		require.NoError(t, l.sum(t.Context()))
		require.NoError(t, l.confirm(t.Context()))
		return l.a
	}
	a := later(func() { deadLetter(t, q, "A-2") })
	require.True(t, a.Balanced(), "%+v", a)
	require.EqualValues(t, 1, a.Settled)
	require.Equal(t, []int{2, 0}, []int{int(a.Letters), a.Unnamed}, "the later one is named by a record that was read again")
	require.Zero(t, a.Moving)

	publish(t, q, intent("A-3", "i3"))
	a = later(func() {
		settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
		requireDrained(t, q)
	})
	require.True(t, a.Balanced(), "%+v", a)
	require.EqualValues(t, 3, a.Settled)
	require.Zero(t, a.Pending)

	a = later(func() {
		for _, id := range []string{"i4", "i5"} {
			publish(t, q, intent("A-4", id))
			d := pull(t, q, 1)[0]
			if d.Work == settle.WorkRepeat {
				_, err := q.Worker.Repeat(t.Context(), d)
				require.NoError(t, err)
				d.Release()
			} else {
				settleAs(t, q, d, report(order.Accepted, order.History{}))
			}
			requireDrained(t, q)
		}
	})
	require.True(t, a.Unsure(), "%+v", a)
	require.EqualValues(t, 1, a.Moving)
	requireBalanced(t, q)
}

// TestTheAuditMissesNoChangeThatIsReplacedMeanwhile: an order was settled after the audit had begun, and submitted again
// before the audit came to that record.
func TestTheAuditMissesNoChangeThatIsReplacedMeanwhile(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	l := newAuditor(q, Options{Full: true, chunk: chunkSize})
	require.NoError(t, l.begin(t.Context()))
	require.NoError(t, l.readResults(t.Context()))
	for i := range onePass + 1 { // a second page
		no := fmt.Sprint("B-", i)
		_, err := q.Store().PutRecord(t.Context(), no, &order.Record{OrderNo: no, Word: order.Retrying, IntentID: no, WriteID: no}, 0)
		require.NoError(t, err)
	}
	settleAs(t, q, pull(t, q, 1)[0], report(order.Rejected, order.History{}))
	requireDrained(t, q)
	require.NoError(t, l.readIntents(t.Context()))
	require.NoError(t, l.readLetters(t.Context()))
	pages := 0
	l.Tell = func(AuditProgress) {
		if pages++; pages == 1 {
			publish(t, q, intent("A-1", "i2"))
			settleAs(t, q, pull(t, q, 1)[0], order.Report{End: order.EndHandBack})
		}
	}
	require.NoError(t, l.readChanges(t.Context()))
	require.NoError(t, l.sum(t.Context()))
	require.True(t, l.a.Balanced(), "%+v", l.a)
	require.EqualValues(t, 1, l.a.Settled)
}
