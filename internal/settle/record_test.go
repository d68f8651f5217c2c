package settle_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
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
