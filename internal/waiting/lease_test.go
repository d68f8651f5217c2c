package waiting

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/settle"
)

// Two workers want the lease: the second one gets it when no renewal was seen for one
// term, and the first one then drops it at its next renewal.
func TestTheLeaseIsOnes(t *testing.T) {
	s := startBroker(t)
	a, b := newFeeder(t, openQueue(t, s, "w1"), "w1"), newFeeder(t, openQueue(t, s, "w2"), "w2")
	keep := func(h *leaseHolder) bool {
		feeds, err := h.keep(t.Context())
		require.NoError(t, err)
		return feeds
	}
	require.True(t, keep(&a.lease))
	require.True(t, a.lease.acquired)
	require.False(t, keep(&b.lease))
	b.lease.seenAt = b.lease.seenAt.Add(-books.FeederTerm - time.Second)
	a.lease.renewed = time.Time{}
	require.True(t, keep(&a.lease))
	require.False(t, keep(&b.lease), "a renewal begins the term anew")
	b.lease.seenAt = b.lease.seenAt.Add(-books.FeederTerm - time.Second)
	require.True(t, keep(&b.lease))
	a.lease.renewed = time.Time{}
	require.False(t, keep(&a.lease))
	require.False(t, a.lease.held())
	require.NoError(t, b.lease.leave())
	require.True(t, keep(&a.lease), "a worker that leaves gives it up at once")
}

// A worker that is stopped in the middle of a renewal gives up the lease all the same:
// the renewal may have been stored.
func TestALeaseIsGivenUpAfterALostRenewal(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	f := newFeeder(t, q, "w1")
	_, err := f.lease.keep(t.Context())
	require.NoError(t, err)
	f.lease.mine.Beat++
	_, err = q.Bucket().Swap(t.Context(), books.LeaseKey, f.lease.mine, f.lease.revision)
	require.NoError(t, err)
	require.NoError(t, f.lease.leave())
	now, err := books.ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	require.Nil(t, now.Lease)
}

// What is news is told at once, and not with the next renewal.
func TestNewsAreToldAtOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	f := newFeeder(t, q, "w1")
	_, err := f.lease.keep(t.Context())
	require.NoError(t, err)
	f.lease.mine.Holds, f.lease.news = 7, true
	_, err = f.lease.keep(t.Context())
	require.NoError(t, err)
	now, err := books.ReadFeeding(t.Context(), q, f.lease.revision)
	require.NoError(t, err)
	require.EqualValues(t, 7, now.Lease.Holds)
	_, err = books.ReadFeeding(t.Context(), q, f.lease.revision+1)
	require.ErrorIs(t, err, books.ErrBehind, "no answer is as of a revision that is to come")
	require.NoError(t, ignoreBehind(err))
	require.ErrorIs(t, ignoreBehind(settle.ErrFull), settle.ErrFull)
}

// A feeder whose term is over by one of the clocks, or that lost its lease, publishes
// nothing of what it has in hand.
func TestR13AFeederWithoutALeaseMovesNothing(t *testing.T) {
	for name, end := range map[string]func(h *leaseHolder){
		"the term is over":            func(h *leaseHolder) { h.until = time.Now() },
		"the machine was suspended":   func(h *leaseHolder) { h.wall = time.Now().Round(0) },
		"another worker took it over": func(h *leaseHolder) { h.revision = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			publish(t, q, waitingIntents("bulk", "march", 20)...)
			f := newFeeder(t, q, "w1")
			list(t, f)
			require.Equal(t, 20, f.ready())
			end(&f.lease)
			if _, err := f.feed(t.Context(), 5); err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			require.Equal(t, 20, total(t, q))
			c, err := q.Census.Count(t.Context())
			require.NoError(t, err)
			require.Zero(t, c.LastIntent)
		})
	}
}

// After a move that failed, a new hold is told only when nothing of it can be on its
// way, and nothing is moved meanwhile.
func TestAHoldIsToldWhenNothingIsOnItsWay(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 50)...)
	publish(t, q, waitingIntents("bulk", "april", 50)...)
	f := newFeeder(t, q, "w1")
	_, err := f.round(t.Context())
	require.NoError(t, err)
	f.underWay = func() bool { return true }
	moved := 0
	paused := make(chan error, 1)
	go func() { paused <- books.PauseImport(t.Context(), q, "march", "anna") }()
	require.Eventually(t, func() bool {
		moved = total(t, q) // until the feeder reads the hold, it may move more
		f.lease.renewed = time.Time{}
		_, err := f.round(t.Context())
		require.NoError(t, err)
		return f.holds.Held("march")
	}, time.Minute, time.Millisecond)
	require.Zero(t, f.lease.mine.Holds)
	work(t, q, 8)
	_, err = f.round(t.Context())
	require.NoError(t, err)
	require.Equal(t, moved, total(t, q), "it moved while a move may have been on its way")
	f.underWay = func() bool { return false }
	_, err = f.round(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-paused)
	require.Less(t, total(t, q), moved, "others go on")
}

// A feeder was frozen for longer than its term, and nobody took over. The person who
// paused an import meanwhile was told that nobody feeds, so the feeder must not go on
// with the holds that it read before.
func TestAFrozenFeederKeepsTheHoldsOfMeanwhile(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 50)...)
	f := newFeeder(t, q, "w1")
	list(t, f)
	require.NoError(t, books.PauseImport(t.Context(), q, "march", "anna"))
	_, err := f.fill(t.Context())
	require.NoError(t, err)
	require.Equal(t, 50, total(t, q), "it fed an import that is paused")
}

// Near the end of its term a feeder takes nothing more out: it could not move it in time.
func TestAFeederTakesNothingNearTheEndOfItsTerm(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, waitingIntents("bulk", "march", 20)...)
	f := newFeeder(t, q, "w1")
	list(t, f)
	f.lease.until = time.Now().Add(leaveToMove * 3 / 4)
	_, err := f.feed(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 20, total(t, q))
	for _, s := range f.sources {
		require.Zero(t, s.next, "it read something")
	}
	f.lease.until = time.Now().Add(time.Minute)
	_, err = f.feed(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 15, total(t, q))
}
