package settle_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
)

// R1 and R4: the frozen worker's answer was an acceptance. Its successor's
// attempt was refused, and it filed a letter.
func TestR1ALateAcceptanceRaisesTheResultAndRemovesTheLetter(t *testing.T) {
	a, b, frozen, successor := twoOwners(t)
	settleAs(t, b, successor, report(order.Rejected, successor.History))
	require.Equal(t, order.OutcomeUnknown, lookup(t, b, "A-1").Outcome(), "an unexplained delivery came before")
	require.NotNil(t, letterOf(t, b, "A-1"))

	frozen.Lease().ExportEndNow()
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	require.Equal(t, order.OutcomeAccepted, lookup(t, a, "A-1").Outcome())
	require.Nil(t, letterOf(t, a, "A-1"))
	requireDrained(t, a)
	requireBalanced(t, a)
}

// R4: the acceptance is written between the successor's letter and its record, which never names the letter.
func TestR4ALetterThatCrossesALateAcceptanceIsRemoved(t *testing.T) {
	a, b, frozen, successor := twoOwners(t)
	b.Ledger.ExportSetStore(&meanwhile{Store: b.Store(), afterFiled: func() {
		frozen.Lease().ExportEndNow()
		settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	}})
	require.Equal(t, order.OutcomeAccepted, settleAs(t, b, successor, report(order.Rejected, successor.History)).Record.Outcome())
	requireLetters(t, a, 0)
	requireDrained(t, a)
	requireBalanced(t, a)
}

// R1: the broker stored the result, and the connection broke before the
// confirmation arrived.
func TestR1ALostConfirmationIsRecognisedAsOnesOwnWrite(t *testing.T) {
	var cuts atomic.Int32
	cut := &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if strings.HasPrefix(subject, "orders.results.") && cuts.Add(1) == 1 {
			return netcut.After
		}
		return netcut.Pass
	}}
	q := openCut(t, startBroker(t), "a", cut)
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	stored := settleAs(t, q, d, report(order.Accepted, d.History))
	require.EqualValues(t, 1, cuts.Load(), "it was not written a second time")
	require.Equal(t, order.OutcomeAccepted, stored.Record.Outcome())
	require.Equal(t, 1, stored.Record.Settled)
	require.EqualValues(t, 1, stored.Seq)
	require.False(t, d.Lease().Valid(), "the disconnect ended the claim, so that the message was left alone")
}

// recordAt stores a record about an earlier intent of A-1, as a broker with another clock stored
// that one.
func recordAt(t *testing.T, q *queue.Queue, seq uint64, at time.Time, earlier ...order.Earlier) {
	t.Helper()
	birth, _, err := q.Store().Stream(t.Context())
	require.NoError(t, err)
	rec := &order.Record{OrderNo: "A-1", IntentID: "i0", Settled: 1, Position: order.Position{EnqueuedAt: at, Seq: seq, Birth: birth}, WriteID: "w", Earlier: earlier}
	rec.SetOutcome(order.OutcomeCancelled)
	_, err = q.Store().PutRecord(t.Context(), "A-1", rec, 0)
	require.NoError(t, err)
}

// A server that was killed brings back an intent that had left, while the record is about a later
// one. It is not posted again, and leaves again: that one was stored later, or the record remembers what
// became of this one, whatever the broker's clock says.
func TestR6AnIntentThatTheBrokerBroughtBackLeavesAgain(t *testing.T) {
	for name, remember := range map[string]func(q *queue.Queue){
		"by its time": func(q *queue.Queue) { recordAt(t, q, 2, time.Now().Add(time.Second)) },
		"by what its record remembers": func(q *queue.Queue) {
			recordAt(t, q, 2, time.Now().Add(-time.Hour), order.Earlier{IntentID: "i1", Outcome: "rejected"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			publish(t, q, intent("A-1", "i1"))
			publish(t, q, intent("B-1", "b1"))
			remember(q)
			for _, d := range pull(t, q, 2) {
				if d.OrderNo() == "A-1" {
					require.Equal(t, settle.WorkPassed, d.Work)
					handle(t, q, d)
				} else {
					settleAs(t, q, d, report(order.Accepted, d.History))
				}
			}
			requireDrained(t, q)
			require.Equal(t, order.OutcomeCancelled, lookup(t, q, "A-1").Outcome())
			require.Equal(t, 1, lookup(t, q, "A-1").Settled, "it was counted")
		})
	}
}

// The stream lost its end and gives sequences again: nobody can tell whether the intent was
// settled. It is neither posted nor dropped until a person cancels it.
func TestR6AnIntentWithASequenceThatIsUsedAgainIsHeld(t *testing.T) {
	for name, record := range map[string]order.Position{
		"the stream ends before the record's": {Seq: 9, EnqueuedAt: time.Now().Add(time.Hour)},
		"the record's was stored earlier":     {Seq: 2, EnqueuedAt: time.Now().Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			publish(t, q, intent("A-1", "i1"))
			publish(t, q, intent("B-1", "b1"))
			recordAt(t, q, record.Seq, record.EnqueuedAt)
			ds := pull(t, q, 2)
			d := ds[0]
			if d.OrderNo() != "A-1" {
				d = ds[1]
			}
			require.Equal(t, settle.WorkNone, d.Work)
			err := q.Worker.GiveUp(t.Context(), d)
			require.ErrorContains(t, err, "message 1")
			require.ErrorContains(t, err, "orderpost enqueue cancel ORDER_NO")
			m, err := q.Store().Intent(t.Context(), "A-1")
			require.NoError(t, err)
			require.NotNil(t, m)
		})
	}
}
