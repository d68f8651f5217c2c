package queue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// An outcome may be forgotten, unless it is unknown or has a dead letter.
func TestOutcomesAreForgottenAndDoubtsAreNot(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"))
	verdicts := map[string]order.Verdict{"A-1": order.Accepted, "A-2": order.Duplicate, "A-3": order.Rejected, "A-4": order.Rejected}
	for _, d := range pull(t, q, 4) {
		settleAs(t, q, d, report(verdicts[d.OrderNo()], d.History))
	}
	requireDrained(t, q)
	_, err := q.Operator.Drop(t.Context(), letterOf(t, q, "A-4"), settle.Person{Name: "anna"})
	require.NoError(t, err)
	for no, forgets := range map[string]bool{"A-1": true, "A-2": false, "A-3": false, "A-4": true} {
		raw, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, q.Conn.n.resPre+no)
		require.NoError(t, err)
		require.Equal(t, forgets, mayForget(lookup(t, q, no)), no)
		require.Equal(t, lookup(t, q, no).Word, raw.Header.Get(settle.HeaderOutcome))
	}
}

// Nor is a record forgotten that names the letter of another intent.
func TestARecordThatNamesALetterIsNotForgotten(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	settled := func(in settle.Intent, v order.Verdict) {
		publish(t, q, in)
		d := pull(t, q, 1)[0]
		if d.Work == settle.WorkConflict {
			_, err := q.Worker.Refuse(t.Context(), d)
			require.NoError(t, err)
		} else {
			settleAs(t, q, d, report(v, d.History))
		}
		requireDrained(t, q)
	}
	settled(intent("A-1", "i1"), order.Accepted)
	settled(settle.Intent{OrderNo: "A-1", ID: "i2", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`)}, order.Accepted)
	settled(intent("A-2", "i3"), order.Rejected)
	entry, err := q.Ledger.Lookup(t.Context(), "A-2")
	require.NoError(t, err)
	withdrawn := *entry.Record
	withdrawn.IntentID, withdrawn.Unqueued, withdrawn.By, withdrawn.Letter = "i4", true, "anna", 0
	withdrawn.SetOutcome(order.OutcomeCancelled)
	_, err = q.store.PutRecord(t.Context(), "A-2", order.Merge(entry.Record, &withdrawn), entry.Seq)
	require.NoError(t, err)
	for _, no := range []string{"A-1", "A-2"} {
		require.False(t, mayForget(lookup(t, q, no)), no)
		_, err = q.Operator.Drop(t.Context(), letterOf(t, q, no), settle.Person{Name: "anna"})
		require.NoError(t, err)
		require.True(t, mayForget(lookup(t, q, no)), no)
	}
}

// A response of the largest size that the operator may configure must not make
// a result that the broker always refuses.
func TestARecordIsCutToWhatTheBrokerTakes(t *testing.T) {
	q := openSmall(t)
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	r := report(order.Rejected, d.History)
	r.Response = strings.Repeat("\x00", 300_000) // six times as long in JSON
	settleAs(t, q, d, r)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "A-1").Outcome())
	require.Equal(t, order.OutcomeRejected, letterOf(t, q, "A-1").Outcome)
}
