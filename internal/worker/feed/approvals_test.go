package feed

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// rules sets what needs an approval.
func rules(t *testing.T, q *queue.Queue, rule string) {
	t.Helper()
	require.NoError(t, imports.ChangeApprovals(t.Context(), q, func(all *imports.Approvals) (bool, error) {
		all.Rule = rule
		return true, nil
	}))
}

// asked waits until a feeder has asked for an approval of an import.
func asked(t *testing.T, q *queue.Queue, batch string) {
	t.Helper()
	require.Eventually(t, func() bool {
		f, err := imports.ReadFeeding(t.Context(), q, 0)
		require.NoError(t, err)
		a := f.Approvals.Imports[imports.ImportToken(batch)]
		return a != nil && a.Why != ""
	}, time.Minute, 5*time.Millisecond)
}

// approve lets two logins approve what waits of an import, up to a sequence.
func approve(t *testing.T, q *queue.Queue, batch string, upTo uint64) {
	t.Helper()
	asked(t, q, batch)
	seen, err := imports.Assess(t.Context(), q, batch, "", upTo, nil)
	require.NoError(t, err)
	require.NoError(t, imports.ChangeApprovals(t.Context(), q, func(all *imports.Approvals) (bool, error) {
		a := all.Imports[imports.ImportToken(batch)]
		a.Bound, a.Until, a.Given = seen.Bound, time.Now().Add(time.Hour), []imports.Signature{{Name: "anna"}, {Name: "bob"}}
		return true, nil
	}))
}

// An import that needs an approval is listed as held, with orders of any lane and time,
// and the orders of no import pass it.
func TestAnImportWithoutAnApprovalIsHeld(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	rules(t, q, "imports")
	in := waitingIntents("bulk", "march", 6)
	in[4].NotBefore, in[5].NotBefore = time.Now().Add(-26*time.Hour), time.Now().Add(2*time.Second)
	in[3].Lane = "night"
	publish(t, q, in...)
	publish(t, q, waitingIntents("bulk", "", 4)...)
	run(t, newFeeder(t, q, "w1"))
	require.Len(t, work(t, q, 4), 4)
	approve(t, q, "march", queue.ToTheEnd)
	for _, no := range work(t, q, 6) {
		require.Contains(t, no, "march")
	}
	require.Eventually(t, func() bool { return total(t, q) == 0 }, time.Minute, 10*time.Millisecond)
}

// An approved intent that is blocked is tried again although what follows it has no
// approval, and the rest goes once it has one.
func TestABlockedIntentBeforeAnApprovalsEnd(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 4)
	other := in[0]
	other.Lane, other.ID = "", "direct"
	publish(t, q, other)
	rules(t, q, "imports")
	publish(t, q, in...)
	run(t, newFeeder(t, q, "w1"))
	approve(t, q, "march", 2)
	require.Eventually(t, func() bool { return total(t, q) == 3 }, time.Minute, 5*time.Millisecond)
	require.ElementsMatch(t, []string{in[0].OrderNo, in[1].OrderNo}, work(t, q, 2))
	require.Eventually(t, func() bool {
		require.NoError(t, q.Trimmer.Trim(t.Context()))
		return total(t, q) == 2
	}, time.Minute, 10*time.Millisecond, "what was blocked has left")
	require.NoError(t, q.Pull(t.Context(), 1, 5*time.Second, func(ds []*settle.Delivery) {
		require.Equal(t, settle.WorkRepeat, ds[0].Work, "it asks for what was accepted")
		r := order.Report{End: order.EndAnswer, Verdict: order.Duplicate, Status: 409, History: order.History{Attempts: 1}}
		_, err := q.Worker.Settle(t.Context(), ds[0], &r, order.Decide(&r, order.Facts{}))
		require.NoError(t, err)
		ds[0].Release()
	}))
	require.Eventually(t, func() bool {
		f, err := imports.ReadFeeding(t.Context(), q, 0)
		require.NoError(t, err)
		return strings.Contains(f.Approvals.Imports[imports.ImportToken("march")].Why, "stored after the last decision")
	}, time.Minute, 5*time.Millisecond)
	approve(t, q, "march", queue.ToTheEnd)
	require.ElementsMatch(t, []string{in[2].OrderNo, in[3].OrderNo}, work(t, q, 2))
}

// An import under a subject that the broker cannot list can be shown to nobody, so nobody
// can approve it.
func TestAnUnlistedImportIsHeld(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	rules(t, q, "imports")
	in := waitingIntents("bulk", "march", 2)
	publish(t, q, in...)
	f := newFeeder(t, q, "w1")
	list(t, f)
	require.Zero(t, f.approvals.upTo(f.holds, imports.ImportToken("march"), f.birth))
	require.Zero(t, f.approvals.upTo(f.holds, "bad\x7ftoken", f.birth))
	require.Equal(t, uint64(queue.ToTheEnd), f.approvals.upTo(f.holds, settle.NoImport, f.birth))
	require.True(t, f.held(imports.ImportToken("march")))
}
