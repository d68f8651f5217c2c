package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func TestTheFeederFeedsEveryLaneAndImport(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 300)...)
	publish(t, q, waitingIntents("bulk", "april", 40)...)
	publish(t, q, waitingIntents("night", "", 25)...)
	require.Equal(t, 365, total(t, q))
	stop := run(t, newFeeder(t, q, "w1"))
	got := work(t, q, 365)
	require.Subset(t, got, []string{"bulk-march-299", "bulk-april-39", "night--24"})
	require.Eventually(t, func() bool { return total(t, q) == 0 }, time.Minute, 10*time.Millisecond)
	stop()
	now, err := imports.ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	require.Nil(t, now.Lease, "a feeder that ends gives up its lease")
}

// Of what waits only a little is in the queue at any time, so that an order that is
// published directly is soon delivered.
func TestTheQueueIsFilledOnlyAsDeepAsItIsEmptied(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 500)...)
	run(t, newFeeder(t, q, "w1"))
	require.Eventually(t, func() bool { return total(t, q) < 500 }, time.Minute, time.Millisecond)
	depth := func() uint64 {
		c, err := q.Census.Count(t.Context())
		require.NoError(t, err)
		return c.Pending
	}
	require.Eventually(t, func() bool { return depth() == 8 }, time.Minute, time.Millisecond)
	direct := settle.Intent{OrderNo: "direct", Body: []byte(`{"order_no":"direct","timeout":30}`), ID: "direct"}
	publish(t, q, direct)
	require.Contains(t, work(t, q, 9), "direct")
}

func TestIntentsWaitForTheirTime(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	now := time.Now()
	in := waitingIntents("bulk", "march", 5)
	in[0].NotBefore = now.Add(2 * time.Second)
	in[1].NotBefore = now.Add(time.Hour)
	in[2].NotBefore = now.Add(-30 * time.Second)
	in[3].NotBefore = now.Add(-26 * time.Hour)
	in[4].NotBefore = now.Add(-90 * 24 * time.Hour)
	publish(t, q, in...)
	run(t, newFeeder(t, q, "w1"))
	got := work(t, q, 3)
	require.ElementsMatch(t, []string{in[2].OrderNo, in[3].OrderNo, in[4].OrderNo}, got)
	require.Equal(t, []string{in[0].OrderNo}, work(t, q, 1))
	late := time.Since(in[0].NotBefore)
	require.Positive(t, late, "an order was sent before its time")
	require.Eventually(t, func() bool { return total(t, q) == 1 }, time.Minute, 10*time.Millisecond)
}

// A feeder whose clock is ahead sends nothing before its time.
func TestAClockThatIsAheadFeedsNothingEarly(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	f := newFeeder(t, q, "a")
	f.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	for i, wait := range []time.Duration{-time.Hour, time.Hour, 10 * time.Minute} {
		in := waitingIntents("bulk", "b"+strconv.Itoa(i), 1)
		in[0].NotBefore = time.Now().Add(wait)
		publish(t, q, in...)
	}
	list(t, f)
	require.Equal(t, 1, f.ready(), "sent before its time")
	require.True(t, f.clockOff, "nobody is told")
	f.now = time.Now
	f.listNow()
	list(t, f)
	require.Equal(t, 1, f.ready())
	require.False(t, f.clockOff)
}

// A worker that is killed leaves its lease behind. Another one feeds once no renewal
// has come for one term, and what was half done is finished, not doubled.
func TestAnotherWorkerTakesOver(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "w1"), openQueue(t, s, "w2")
	publish(t, a, waitingIntents("bulk", "march", 30)...)
	first, second := newFeeder(t, a, "w1"), newFeeder(t, b, "w2")
	wait, err := first.round(t.Context())
	require.NoError(t, err)
	require.Equal(t, dryEvery, wait, "the workers had nothing to do")
	wait, err = second.round(t.Context())
	require.NoError(t, err)
	require.Equal(t, idleEvery, wait, "two feed")
	a.Close() // killed
	second.lease.Clock = func() time.Time { return time.Now().Add(fleet.LeaseTerm + time.Second) }
	run(t, second)
	work(t, b, 30)
	require.Eventually(t, func() bool { return total(t, b) == 0 }, time.Minute, 10*time.Millisecond)
	now, err := imports.ReadFeeding(t.Context(), b, 0)
	require.NoError(t, err)
	require.Equal(t, "w2", now.Lease.Process)
}

// An intent whose order has another intent pending keeps nobody behind it waiting,
// and is moved when the other one is settled.
func TestABlockedIntentIsPassed(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 4)
	other := in[0]
	other.Lane, other.ID = "", "direct"
	publish(t, q, other)
	publish(t, q, in...)
	run(t, newFeeder(t, q, "w1"))
	require.Eventually(t, func() bool { return total(t, q) == 1 }, time.Minute, 5*time.Millisecond)
	require.Equal(t, in[0].OrderNo, work(t, q, 4)[0])
	require.Eventually(t, func() bool {
		require.NoError(t, q.Trimmer.Trim(t.Context()))
		return total(t, q) == 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, q.Pull(t.Context(), 1, 5*time.Second, func(ds []*settle.Delivery) {
		require.Equal(t, settle.WorkRepeat, ds[0].Work, "it asks for what was accepted")
		ds[0].Release()
	}))
}

// A read begins anew where the listing counts more than the source finds, for instance
// because a purge failed.
func TestWhatWasPassedIsReadAgain(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 5)...)
	f := newFeeder(t, q, "w1")
	list, _, err := q.Waiting.Now(t.Context())
	require.NoError(t, err)
	f.sources[list[0].Subject] = &source{Waiting: list[0], next: 4}
	run(t, f)
	work(t, q, 5)
	require.Eventually(t, func() bool { return total(t, q) == 0 }, time.Minute, 10*time.Millisecond)
}

// A feeder that ends leaves nothing in hand for long.
func TestTheNextFeederGoesOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 200)...)
	stop := run(t, newFeeder(t, q, "w1"))
	require.Eventually(t, func() bool { return total(t, q) < 200 }, time.Minute, time.Millisecond)
	stop()
	run(t, newFeeder(t, q, "w2"))
	work(t, q, 200)
	require.Eventually(t, func() bool { return total(t, q) == 0 }, time.Minute, 10*time.Millisecond)
}

// A held import stays where it is, and a cancellation waits until the feeder has
// none of its intents in hand. Others go on.
func TestAHeldImportIsNotFed(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	require.NoError(t, imports.PauseImport(t.Context(), q, "march", "anna"))
	publish(t, q, waitingIntents("bulk", "march", 20)...)
	publish(t, q, waitingIntents("bulk", "april", 30)...)
	run(t, newFeeder(t, q, "w1"))
	for _, no := range work(t, q, 30) {
		require.Contains(t, no, "april")
	}
	require.Eventually(t, func() bool { return total(t, q) == 20 }, time.Minute, 10*time.Millisecond)
	_, err := imports.ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	work(t, q, 20)
	require.Eventually(t, func() bool { return total(t, q) == 0 }, time.Minute, 10*time.Millisecond)
}

// A person cancels an import beside a feeder that is at work: every intent is either
// withdrawn or settled, and none is both. Neither a pause of the import nor a full queue
// keeps the feeder from it, nor a time that has not come.
func TestTheFeederWithdrawsWhatIsCancelled(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 2500)
	for i := range 100 {
		in[2400+i].NotBefore = time.Now().Add(time.Hour)
	}
	publish(t, q, in...)
	publish(t, q, waitingIntents("bulk", "april", 50)...)
	run(t, newFeeder(t, q, "w1"))
	got := work(t, q, 40)
	require.NoError(t, imports.PauseImport(t.Context(), q, "march", "anna"))
	c, err := imports.CancelBatch(t.Context(), q, "march", "anna") // no worker is present that would settle what is queued
	require.NoError(t, err)
	require.True(t, c.NoWorker)
	require.Eventually(t, func() bool { return len(q.Ledger.Cancellations().Marks) == 1 }, time.Minute, time.Millisecond, "the feeder knows")
	march := 0
	for _, no := range got {
		if strings.Contains(no, "march") {
			march++
		}
	}
	handler := settle.NewHandler(q.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		return &order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1}}
	}})
	require.Eventually(t, func() bool {
		require.NoError(t, q.Pull(t.Context(), 50, 20*time.Millisecond, func(ds []*settle.Delivery) {
			for _, d := range ds {
				handler.Handle(t.Context(), t.Context(), d, nil)
			}
		}))
		_ = q.Trimmer.Trim(t.Context())
		now, err := imports.ReadFeeding(t.Context(), q, 0)
		require.NoError(t, err)
		return total(t, q) == 0 && len(now.Cancelled.Marks) == 0
	}, time.Minute, time.Millisecond)
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	require.Equal(t, map[string]uint64{"accepted": uint64(march + 50), "cancelled": uint64(2500 - march)}, a.Outcomes)
}

func TestTheFeederTellsWhatIsReady(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("night", "march", 50)
	in[0].NotBefore = time.Now().Add(time.Hour)
	publish(t, q, in...)
	run(t, newFeeder(t, q, "w1"))
	require.Eventually(t, func() bool {
		now, err := imports.ReadFeeding(t.Context(), q, 0)
		require.NoError(t, err)
		return now.Lease != nil && len(now.Lease.Lanes) == 1 && now.Lease.Lanes[0].Ready == 41
	}, time.Minute, 10*time.Millisecond, "all but those in the queue")
	list, err := q.Waiting.All(t.Context())
	require.NoError(t, err)
	lanes, err := q.Waiting.LanesOf(t.Context(), list, time.Now(), func(string) bool { return false })
	require.NoError(t, err)
	require.Equal(t, []any{"night", 41, 1}, []any{lanes[0].Name, lanes[0].Ready, lanes[0].Later})
	require.WithinDuration(t, time.Now(), lanes[0].Oldest, time.Minute)
}

// TestAFullQueueIsNoProblemOfTheFeeder: it is full whenever more orders wait than it takes.
func TestAFullQueueIsNoProblemOfTheFeeder(t *testing.T) {
	t.Parallel()
	f := newFeeder(t, openQueue(t, startBroker(t), "w1"), "w1")
	full := fmt.Errorf("ORDERS: %w", settle.ErrFull)
	for _, told := range []struct {
		err  error
		want string
	}{{full, ""}, {errors.New("denied"), "denied"}, {full, ""}} {
		f.tell(told.err)
		require.Equal(t, told.want, f.mine.Problem)
	}
}

// A move whose publish failed may be on its way. Until it is over, nothing else is
// moved if somebody waits for a hold, and then the hold is told: a stream that stays
// full keeps no cancellation waiting.
func TestAHoldIsKeptWhileEveryMoveFails(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *queue.Config) { c.MaxIntents = 2 })
	publish(t, q, waitingIntents("bulk", "march", 50)...)
	f := newFeeder(t, q, "w1")
	run(t, f)
	require.Eventually(t, func() bool { return total(t, q) == 48 }, time.Minute, time.Millisecond)
	require.NoError(t, imports.PauseImport(t.Context(), openQueue(t, s, "w2"), "march", "anna"))
	now, err := imports.ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	require.Equal(t, now.HoldsRevision, now.Lease.Holds)
}
