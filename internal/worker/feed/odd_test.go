package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// publishRaw publishes intents as a producer does, under the given subjects.
func publishRaw(t *testing.T, q *queue.Queue, in []settle.Intent, subject func(i int) string) {
	t.Helper()
	ms := make([]*settle.Message, len(in))
	for i := range in {
		ms[i] = q.Producer.IntentMessage(in[i])
		if subject != nil {
			ms[i].Subject = subject(i)
		}
	}
	for _, p := range q.Store().PublishIntents(t.Context(), ms, t.Context().Err) {
		require.NoError(t, p.Err)
		require.Equal(t, settle.Stored, p.Status)
	}
}

var oddSubjects = []string{
	"orders.waiting.at.2026-11-20.0700.00.bulk.-", "orders.waiting.at.20261120.0760.00.bulk.-", "orders.waiting.at.20262011.0700.00.bulk.march",
	"orders.waiting.at.21261120.0700.00.bulk.-",
}

// invalids pulls n deliveries, each of which a worker refuses.
func invalids(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	got := 0
	for start := time.Now(); got < n && time.Since(start) < 20*time.Second; {
		require.NoError(t, q.Pull(t.Context(), n-got, time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				require.Equal(t, settle.WorkInvalid, d.Work)
				require.Equal(t, "invalid: bad_not_before", d.InvalidReason())
				require.ErrorContains(t, d.Invalid, "subject at.")
				d.Release()
				got++
			}
		}))
	}
	require.Equal(t, n, got)
}

// A confirmed intent whose time does not exist, or lies a lifetime ahead, goes to a
// worker, who refuses it with a dead letter. Otherwise nobody would ever see it.
func TestATimeThatIsNoneIsRefused(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publishRaw(t, q, waitingIntents("bulk", "", len(oddSubjects)), func(i int) string { return oddSubjects[i] })
	run(t, newFeeder(t, q, "w1"))
	invalids(t, q, len(oddSubjects))
}

// It is found behind any number of other times, and so is what is overdue behind
// paused imports.
func TestMoreTimesThanTheBrokerListsAtOnce(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	require.NoError(t, imports.PauseImport(t.Context(), q, "paused", "anna"))
	const n = 100_010
	in, begin := waitingIntents("bulk", "paused", n), time.Now().Add(-48*time.Hour)
	for i := range in {
		in[i].NotBefore = begin.Add(time.Duration(i) * time.Second)
	}
	publishRaw(t, q, in, nil)
	publishRaw(t, q, waitingIntents("bulk", "odd", len(oddSubjects)), func(i int) string { return oddSubjects[i] })
	late := waitingIntents("bulk", "late", 1)
	late[0].NotBefore = time.Now().Add(-10 * time.Minute)
	publishRaw(t, q, late, nil)
	f := newFeeder(t, q, "w1")
	var err error
	for since := time.Now(); total(t, q) != n; { // sweeps look at one part after the other, and a busy broker may answer too late
		require.Less(t, time.Since(since), 5*time.Minute, "%v", err)
		_, err = f.round(t.Context())
		f.listed, f.swept = time.Time{}, time.Time{}
	}
}

// A paused import with many overdue seconds keeps no other one waiting.
func TestPausedTimesKeepNobodyWaiting(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	require.NoError(t, imports.PauseImport(t.Context(), q, "march", "anna"))
	in, now := waitingIntents("bulk", "march", mostDue+100), time.Now()
	for i := range in {
		in[i].NotBefore = now.Add(-5*time.Hour + time.Duration(i)*time.Second)
	}
	publishRaw(t, q, in, nil)
	other := waitingIntents("bulk", "april", 1)
	other[0].NotBefore = now.Add(-10 * time.Minute)
	publishRaw(t, q, other, nil)
	f := newFeeder(t, q, "w1")
	_, err := f.round(t.Context())
	require.NoError(t, err)
	require.Equal(t, mostDue+100, total(t, q))
	require.Equal(t, 1, f.mine.Lanes[0].Ready)
	list, err := q.Waiting.All(t.Context())
	require.NoError(t, err)
	lanes, err := q.Waiting.LanesOf(t.Context(), list, time.Now(), f.holds.Held)
	require.NoError(t, err)
	require.Equal(t, []int{0, mostDue + 100}, []int{lanes[0].Ready, lanes[0].Paused}, "what is paused is not ready")
	_, err = imports.ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	f.lease.Changed() // a renewal is due, a sweep is not
	require.WithinRange(t, f.swept, time.Now().Add(-sweepEvery/2), time.Now())
	work(t, q, 1)
	_, err = f.round(t.Context())
	require.NoError(t, err)
	require.Less(t, total(t, q), mostDue+100, "what goes on again goes on at once")
}

// An intent whose time is in its header alone waits for it too. In the intents stream
// it would keep a place among the pending acknowledgements.
func TestATimeInTheHeaderAloneIsKept(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 2)
	in[0].NotBefore, in[1].NotBefore = time.Now().Add(time.Hour), time.Now().Add(2*time.Second)
	publishRaw(t, q, in, func(int) string { return "orders.waiting.bulk.march" })
	run(t, newFeeder(t, q, "w1"))
	require.Equal(t, []string{in[1].OrderNo}, work(t, q, 1))
	require.Eventually(t, func() bool { return total(t, q) == 1 }, time.Minute, time.Millisecond)
	c, err := imports.CancelBatch(t.Context(), q, "march", "anna") // it waits for its time, under a subject without one
	require.NoError(t, err)
	require.Equal(t, 1, c.Open)
	require.Eventually(t, func() bool { return total(t, q) == 0 }, time.Minute, time.Millisecond)
	entry, err := q.Ledger.Lookup(t.Context(), in[0].OrderNo)
	require.NoError(t, err)
	require.Equal(t, order.OutcomeCancelled, entry.Record.Outcome())
}

// Very many imports of one order each are fed in one round.
func TestManyImportsAreFed(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	in := make([]settle.Intent, 20_000)
	for i := range in {
		in[i] = waitingIntents("bulk", fmt.Sprintf("basket-%05d", i), 1)[0]
	}
	publishRaw(t, q, in, nil)
	f := newFeeder(t, q, "w1")
	require.Eventually(t, func() bool { // a machine that stands still uses up the term of a round
		_, err := f.round(t.Context())
		return err == nil && total(t, q) == len(in)-8
	}, time.Minute, time.Millisecond)
	require.Equal(t, len(in), f.mine.Lanes[0].Ready)
}

// Lanes that producers make up are summed up, so that neither the lease nor the
// metrics grow with them.
func TestManyLanesAreSummedUp(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	var in []settle.Intent
	for i := range 60 {
		in = append(in, waitingIntents(fmt.Sprintf("lane-%02d", i), fmt.Sprint("b", i), 1)...)
	}
	publishRaw(t, q, append(in, waitingIntents(order.BulkLane, "march", 5)...), nil)
	list, err := q.Waiting.All(t.Context())
	require.NoError(t, err)
	lanes, err := q.Waiting.LanesOf(t.Context(), list, time.Now(), func(string) bool { return false })
	require.NoError(t, err)
	require.Len(t, lanes, 33)
	require.Equal(t, []any{queue.OtherLanes, 29}, []any{lanes[0].Name, lanes[0].Ready})
	require.Equal(t, []any{order.BulkLane, 5}, []any{lanes[1].Name, lanes[1].Ready})
}

// What was withdrawn of a time that is over does not count until the next sweep.
func TestWhatIsWithdrawnIsNotReady(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 3)
	for i := range in {
		in[i].NotBefore = time.Now().Add(-10 * time.Minute)
	}
	publishRaw(t, q, in, nil)
	f := newFeeder(t, q, "w1")
	list(t, f)
	require.Equal(t, 3, f.ready())
	for seq := range uint64(3) {
		require.NoError(t, q.Store().DeleteWaiting(t.Context(), seq+1))
	}
	later := waitingIntents("bulk", "april", 1)
	later[0].NotBefore = time.Now().Add(time.Hour)
	publishRaw(t, q, later, nil)
	swept := f.swept
	for range 2 { // it finds nothing, then it counts
		f.listed, f.summed = time.Time{}, time.Time{}
		require.NoError(t, f.list(t.Context()))
		_, err := f.feed(t.Context(), 5)
		require.NoError(t, err)
	}
	require.Equal(t, swept, f.swept)
	require.Empty(t, f.sources)
	require.Empty(t, f.mine.Lanes)
}

// A producer may call a lane "at". What waits in it is listed once.
func TestALaneThatIsCalledAt(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 2)
	in[0].NotBefore = time.Now().Add(-10 * time.Minute)
	publishRaw(t, q, in, func(i int) string {
		if i == 1 {
			return "orders.waiting.at.march"
		}
		return q.Producer.IntentMessage(in[i]).Subject
	})
	var overdue []string
	_, err := q.Waiting.Overdue(t.Context(), time.Now(), 0, func(w queue.Waiting) bool { overdue = append(overdue, w.Lane); return true })
	require.NoError(t, err)
	require.Equal(t, []string{"bulk"}, overdue)
}
