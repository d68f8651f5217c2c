package feed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// farAhead is a clock by which the term of a lease that list took is over.
func farAhead() time.Time { return time.Now().Add(time.Hour) }

// What is news is told at once, and not with the next renewal.
func TestNewsAreToldAtOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	f := newFeeder(t, q, "w1")
	_, err := f.lease.Keep(t.Context())
	require.NoError(t, err)
	f.mine.Holds = 7
	f.lease.Changed()
	_, err = f.lease.Keep(t.Context())
	require.NoError(t, err)
	now, err := imports.ReadFeeding(t.Context(), q, f.lease.Revision())
	require.NoError(t, err)
	require.EqualValues(t, 7, now.Lease.Holds)
	_, err = imports.ReadFeeding(t.Context(), q, f.lease.Revision()+1)
	require.ErrorIs(t, err, imports.ErrBehind, "no answer is as of a revision that is to come")
	require.NoError(t, ignoreBehind(err))
	require.ErrorIs(t, ignoreBehind(settle.ErrFull), settle.ErrFull)
}

// A feeder whose term is over, or that lost its lease, publishes nothing of what it has in hand.
func TestR13AFeederWithoutALeaseMovesNothing(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *embedded.Server, f *Feeder){
		"the term is over": func(_ *testing.T, _ *embedded.Server, f *Feeder) { f.lease.Clock = farAhead },
		"another worker took it over": func(t *testing.T, s *embedded.Server, f *Feeder) {
			other := newFeeder(t, openQueue(t, s, "w2"), "w2")
			feeds, err := other.lease.Keep(t.Context())
			require.NoError(t, err)
			require.False(t, feeds)
			other.lease.Clock = farAhead
			feeds, err = other.lease.Keep(t.Context())
			require.NoError(t, err)
			require.True(t, feeds)
			f.lease.Changed()
			feeds, err = f.lease.Keep(t.Context())
			require.NoError(t, err)
			require.False(t, feeds)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q := openQueue(t, s, "w1")
			publish(t, q, waitingIntents("bulk", "march", 20)...)
			f := newFeeder(t, q, "w1")
			list(t, f)
			require.Equal(t, 20, f.ready())
			end(t, s, f)
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
	go func() { paused <- imports.PauseImport(t.Context(), q, "march", "anna") }()
	require.Eventually(t, func() bool {
		moved = total(t, q) // until the feeder reads the hold, it may move more
		f.lease.Changed()
		_, err := f.round(t.Context())
		require.NoError(t, err)
		return f.holds.Held("march")
	}, time.Minute, time.Millisecond)
	require.Zero(t, f.mine.Holds)
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
	require.NoError(t, imports.PauseImport(t.Context(), q, "march", "anna"))
	f.lease.Clock = farAhead
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
	sent := time.Now().Add(-3 * time.Second) // 1.5 seconds of the term are left
	f.lease.Clock = func() time.Time { return sent }
	f.lease.Changed()
	_, err := f.lease.Keep(t.Context())
	require.NoError(t, err)
	_, err = f.feed(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 20, total(t, q))
	for _, s := range f.sources {
		require.Zero(t, s.next, "it read something")
	}
	f.lease.Clock = farAhead
	_, err = f.lease.Keep(t.Context())
	require.NoError(t, err)
	_, err = f.feed(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 15, total(t, q))
}
