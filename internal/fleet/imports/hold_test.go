package imports

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
)

// feeds writes a lease, as a worker does that feeds.
func feeds(t *testing.T, q *queue.Queue, l Lease) {
	t.Helper()
	now, err := ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	_, err = q.Bucket().Swap(t.Context(), LeaseKey, l, now.LeaseRevision)
	require.NoError(t, err)
}

// However many imports were paused, what is fed can be read: a key that was deleted
// leaves a marker, and the broker answers for 1,024 of them at most.
func TestManyPausesLeaveNothingBehind(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	for i := range 1100 {
		batch := fmt.Sprint("batch-", i)
		require.NoError(t, PauseImport(t.Context(), q, batch, "anna"))
		_, err := ResumeImport(t.Context(), q, batch)
		require.NoError(t, err)
	}
	now, err := ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	require.Empty(t, now.Holds)
}

func TestOnlySoManyImportsAreHeld(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	many := make(map[string]*Hold)
	for i := range mostHolds {
		many[fmt.Sprint("batch-", i)] = &Hold{}
	}
	_, err := q.Bucket().Swap(t.Context(), holdsKey, many, 0)
	require.NoError(t, err)
	require.ErrorContains(t, PauseImport(t.Context(), q, "march", "anna"), "1000 imports are paused")
	_, err = ResumeImport(t.Context(), q, "batch-7")
	require.NoError(t, err)
	require.NoError(t, PauseImport(t.Context(), q, "march", "anna"))
}

// Two people pause and resume at once, and no change is lost.
func TestHoldsChangeAtOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() { errs[i] = PauseImport(t.Context(), q, fmt.Sprint("batch-", i), "anna") })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	now, err := ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	require.Len(t, now.Holds, len(errs))
}

// A pause that is ended while it waits for the feeder ends: the feeder never tells that it
// keeps it.
func TestAPauseThatIsEndedIsNotAwaited(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	feeds(t, q, Lease{Leader: fleet.Leader{Owner: "x", Process: "w1"}})
	ended := make(chan error)
	go func() { ended <- PauseImport(t.Context(), q, "march", "anna") }()
	require.Eventually(t, func() bool {
		held, err := ReadHold(t.Context(), q, "march")
		require.NoError(t, err)
		return held != nil
	}, time.Minute, time.Millisecond)
	_, err := ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, ErrResumed)
}

// pause returns when the feeder keeps the pause, not before.
func TestAPauseWaitsForTheFeeder(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	feeds(t, q, Lease{Leader: fleet.Leader{Owner: "x", Process: "w1"}})
	ended := make(chan error, 1)
	go func() { ended <- PauseImport(t.Context(), q, "march", "anna") }()
	var now *Feeding
	require.Eventually(t, func() (held bool) {
		var err error
		now, err = ReadFeeding(t.Context(), q, 0)
		require.NoError(t, err)
		return now.Held("march")
	}, time.Minute, time.Millisecond)
	select {
	case err := <-ended:
		t.Fatal("it returned before the feeder kept the pause", err)
	case <-time.After(3 * holdLook):
	}
	feeds(t, q, Lease{Leader: fleet.Leader{Owner: "x", Process: "w1", Beat: 1}, Holds: now.HoldsRevision})
	require.NoError(t, <-ended)
}

// A second pause is written like the first one. What a replica tells that lags would
// otherwise pass for a pause that somebody has ended.
func TestAPauseIsNoLookAlone(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	var last uint64
	for range 2 {
		require.NoError(t, PauseImport(t.Context(), q, "march", "anna"))
		now, err := ReadFeeding(t.Context(), q, 0)
		require.NoError(t, err)
		require.True(t, now.Held("march"))
		require.Greater(t, now.HoldsRevision, last)
		last = now.HoldsRevision
	}
}

// TestImportIsWrittenByOne: a writer that did not see the last word is told.
func TestImportIsWrittenByOne(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	none, err := ReadImport(t.Context(), q, "märz 1")
	require.NoError(t, err)
	require.Nil(t, none)
	first := &Import{Batch: "märz 1", Rows: 10}
	require.NoError(t, SaveImport(t.Context(), q, first))
	require.ErrorIs(t, SaveImport(t.Context(), q, &Import{Batch: "märz 1"}), ErrImportChanged)
	other, err := ReadImport(t.Context(), q, "märz 1")
	require.NoError(t, err)
	other.Done = 5
	require.NoError(t, SaveImport(t.Context(), q, other))
	require.ErrorIs(t, SaveImport(t.Context(), q, first), ErrImportChanged)
	all, err := Imports(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 5, all[0].Done)
	require.False(t, all[0].Complete())
}
