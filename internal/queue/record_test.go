package queue

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/netcut"
)

// R1: a worker that was frozen after its POST wakes and wants to note that it
// is retrying, while its successor has recorded the acceptance.
func TestR1AFrozenWorkersNoteDoesNotOverwriteAccepted(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	frozen := pull(t, a, 1)[0]
	successor := again(t, frozen, b)
	settleAs(t, b, successor, report(order.Accepted, successor.History))

	late := order.Report{End: order.EndVisitBudget, Verdict: order.Retry, History: frozen.History, Delay: time.Hour}
	stored := settleAs(t, a, frozen, late)
	require.Equal(t, order.OutcomeAccepted, stored.Record.Outcome())
	require.Equal(t, order.OutcomeAccepted, lookup(t, a, "A-1").Outcome())
	requireDrained(t, a)
	requireBalanced(t, a)
}

// R1 and R4: the frozen worker's answer was an acceptance; its successor was
// refused, and filed a letter.
func TestR1ALateAcceptanceRaisesTheResultAndRemovesTheLetter(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	frozen := pull(t, a, 1)[0]
	successor := again(t, frozen, b)
	settleAs(t, b, successor, report(order.Rejected, successor.History))
	require.Equal(t, order.OutcomeUnknown, lookup(t, b, "A-1").Outcome(), "an unexplained delivery came before")
	require.NotNil(t, letterOf(t, b, "A-1"))

	frozen.lease.endNow()
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	require.Equal(t, order.OutcomeAccepted, lookup(t, a, "A-1").Outcome())
	require.Nil(t, letterOf(t, a, "A-1"))
	requireDrained(t, a)
	requireBalanced(t, a)
}

// R4: the acceptance lands between its successor's result and letter, and finds
// no letter to remove.
func TestR4ALetterThatCrossesALateAcceptanceIsRemoved(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	frozen := pull(t, a, 1)[0]
	successor := again(t, frozen, b)
	r := report(order.Rejected, successor.History)
	failed, err := b.writeRecord(t.Context(), successor.token, successor.Last, b.record(successor, r, order.Decide(r, order.Facts{})))
	require.NoError(t, err)

	frozen.lease.endNow()
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	require.NoError(t, b.complete(t.Context(), successor, failed, nil))
	require.Nil(t, letterOf(t, a, "A-1"))
	requireDrained(t, a)
	requireBalanced(t, a)
}

// R1: the broker stored the result, and the connection broke before it could
// say so.
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
	require.False(t, d.lease.Valid(), "the disconnect ended the claim, so that the message was left alone")
}

// R1: the write never reached the broker.
func TestR1AWriteThatWasLostIsRepeated(t *testing.T) {
	var cuts atomic.Int32
	cut := &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if strings.HasPrefix(subject, "orders.results.") && cuts.Add(1) == 1 {
			return netcut.Before
		}
		return netcut.Pass
	}}
	q := openCut(t, startBroker(t), "a", cut)
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	stored := settleAs(t, q, d, report(order.Accepted, d.History))
	require.EqualValues(t, 2, cuts.Load())
	require.Equal(t, 1, stored.Record.Settled)
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())
}

// What an outcome's message looks like: it expires, unless it is unknown, or
// has a dead letter.
func TestOutcomesExpireAndDoubtsDoNot(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"))
	verdicts := map[string]order.Verdict{"A-1": order.Accepted, "A-2": order.Duplicate, "A-3": order.Rejected, "A-4": order.Rejected}
	for _, d := range pull(t, q, 4) {
		settleAs(t, q, d, report(verdicts[d.OrderNo()], d.History))
	}
	requireDrained(t, q)
	_, err := q.Drop(t.Context(), letterOf(t, q, "A-4"), Person{Name: "anna"})
	require.NoError(t, err)
	for no, ttl := range map[string]string{"A-1": "720h0m0s", "A-2": "", "A-3": "", "A-4": "720h0m0s"} {
		raw, err := q.lastMsg(t.Context(), q.n.results, q.n.resPre+no)
		require.NoError(t, err)
		require.Equal(t, ttl, raw.Header.Get(jetstream.MsgTTLHeader), no)
		require.Equal(t, lookup(t, q, no).Word, raw.Header.Get(HeaderOutcome))
	}
}

// A response as large as the operator allows must not make a result that the
// broker refuses for ever.
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

// R1 raises a failure to unknown: its letter, which may be filed already, follows.
func TestR1ALetterFollowsItsResultToUnknown(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	record := func(o order.Outcome) *order.Record {
		rec := q.record(d, order.Report{}, order.Settlement{Action: order.ActSettle, Outcome: o})
		return &rec
	}
	require.NoError(t, q.fileLetter(t.Context(), d, newLetter(d, record(order.OutcomeRejected), nil)))
	require.NoError(t, q.fileLetter(t.Context(), d, newLetter(d, record(order.OutcomeUnknown), nil)))
	l := letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeUnknown, l.Outcome)
	require.Equal(t, order.OutcomeRejected, l.Earlier[0].Outcome)

	require.NoError(t, q.fileLetter(t.Context(), d, newLetter(d, record(order.OutcomeRejected), nil)))
	require.Equal(t, l.Seq, letterOf(t, q, "A-1").Seq, "who comes late takes nothing back")
}
