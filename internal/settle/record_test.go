package settle_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
)

// R1: a worker that was frozen after its POST wakes and writes a retrying note,
// after its successor has recorded the acceptance.
func TestR1AFrozenWorkersNoteDoesNotOverwriteAccepted(t *testing.T) {
	a, b, frozen, successor := twoOwners(t)
	settleAs(t, b, successor, report(order.Accepted, successor.History))

	late := order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, History: frozen.History, Delay: time.Hour}
	stored := settleAs(t, a, frozen, late)
	require.Equal(t, order.OutcomeAccepted, stored.Record.Outcome())
	require.Equal(t, order.OutcomeAccepted, lookup(t, a, "A-1").Outcome())
	requireDrained(t, a)
	requireBalanced(t, a)
}

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
	b.Ledger.ExportSetStore(&meanwhile{Store: b.Ledger.ExportStore(), afterFiled: func() {
		frozen.Lease().ExportEndNow()
		settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	}})
	require.Equal(t, order.OutcomeAccepted, settleAs(t, b, successor, report(order.Rejected, successor.History)).Record.Outcome())
	requireLetters(t, a, 0)
	requireDrained(t, a)
	requireBalanced(t, a)
}

// R4: a person settles the order while its redelivery makes sure of the letter, which somebody removed by hand.
func TestR4ALetterThatCrossesAPersonsWordIsRemoved(t *testing.T) {
	a, b, frozen, successor := twoOwners(t)
	failed := writeOnly(t, b, successor, exhaustedInDoubt())
	require.NoError(t, frozen.ExportAnswer().Ack())
	requireAcknowledged(t, a)
	require.NoError(t, a.Store().PurgeIntents(t.Context(), 1)) // on a connection whose floor was proven before
	b.Ledger.ExportSetStore(&meanwhile{Store: b.Ledger.ExportStore(), afterFiled: func() {
		_, err := a.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, anna)
		require.NoError(t, err)
	}})
	require.NoError(t, b.Worker.ExportComplete(t.Context(), successor, failed))
	requireLetters(t, a, 0)
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

// R1 raises a failure to unknown. Its letter is about that from then on, and stays.
func TestR1ALetterFollowsItsResultToUnknown(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	l := letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeRejected, l.Outcome)
	write := func(o order.Outcome) {
		_, err := q.Ledger.ExportWriteRecord(t.Context(), d.ExportToken(), settle.Entry{}, q.Worker.ExportRecord(d, order.Report{}, order.Settlement{Action: order.ActSettle, Outcome: o, Unsure: o == order.OutcomeUnknown}))
		require.NoError(t, err)
	}
	write(order.OutcomeUnknown)
	now := letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeUnknown, now.Outcome)
	require.Equal(t, l.Seq, now.Seq)
	write(order.OutcomeRejected)
	require.Equal(t, now, letterOf(t, q, "A-1"), "who comes late takes nothing back")
	requireDrained(t, q)
	requireBalanced(t, q)
}
