package books

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
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
	many := make(map[string]Hold)
	for i := range mostHolds {
		many[fmt.Sprint("batch-", i)] = Hold{{ID: pauseID}}
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

// A cancellation or a pause whose hold is ended while it waits for the feeder ends:
// the feeder never tells that it keeps that hold.
func TestAHoldThatIsEndedIsNotAwaited(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context, q *queue.Queue) error{
		"cancel": func(ctx context.Context, q *queue.Queue) error {
			_, err := hold(ctx, q, "march", "anna", "")
			return err
		},
		"pause": func(ctx context.Context, q *queue.Queue) error { return PauseImport(ctx, q, "march", "anna") },
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			feeds(t, q, Lease{Owner: "x", Worker: "w1"})
			ended := make(chan error)
			go func() { ended <- begin(t.Context(), q) }()
			require.Eventually(t, func() bool {
				held, err := ReadHold(t.Context(), q, "march")
				require.NoError(t, err)
				return held != nil
			}, time.Minute, time.Millisecond)
			_, err := ResumeImport(t.Context(), q, "march")
			require.NoError(t, err)
			require.ErrorIs(t, <-ended, ErrResumed)
		})
	}
}

// pause returns when the feeder keeps the pause, not before.
func TestAPauseWaitsForTheFeeder(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	feeds(t, q, Lease{Owner: "x", Worker: "w1"})
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
	feeds(t, q, Lease{Owner: "x", Worker: "w1", Beat: 1, Holds: now.HoldsRevision})
	require.NoError(t, <-ended)
}

// With several replicas, the one that answers may lack what was just published. The
// leader tells that something is left.
func TestAReplicaThatLagsHidesNothingFromACancellation(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waitIn(t, q, "march", 5)
	looks := 0
	holds := &holdings{q: q, by: "anna", held: make(map[string]*holding)}
	c, err := holds.withdraw(t.Context(), waitingOf{
		each: func(visit func([]*settle.Message) error) error {
			if looks++; looks == 1 {
				return nil // it lags
			}
			return EachWaiting(t.Context(), q, "march", visit)
		},
		left: func() (bool, error) { return q.StillWaits(t.Context(), "march", queue.ToTheEnd) },
	})
	require.NoError(t, err)
	require.Equal(t, 5, c.Withdrawn)
	require.Zero(t, waits(t, q, "march"))
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
		require.Len(t, now.Holds["march"], 1)
		require.Greater(t, now.HoldsRevision, last)
		last = now.HoldsRevision
	}
}

// The cancellation of one order was killed. What it left holds the whole import. A
// person is told whose order it was, so that they do not withdraw the import, and the
// same command again lets the import go on.
func TestACancellationOfAnOrderThatWasKilled(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waitIn(t, q, "march", 3)
	holds := &holdings{q: q, by: "anna", order: "march-0", held: make(map[string]*holding)}
	_, err := holds.withdrawOnce(t.Context(), WaitingOfOrder(t.Context(), q, "march-0")) // killed before end
	require.NoError(t, err)
	require.NoError(t, PauseImport(t.Context(), q, "march", "otto"))
	held, err := ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, "march-0", held.Order())
	require.Contains(t, held.By(), "anna, whose cancellation of order march-0 of ")
	_, err = CancelOrder(t.Context(), q, "march-1", "anna")
	require.NoError(t, err)
	held, err = ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Len(t, held, 2, "another order's cancellation does not end it")
	_, err = CancelOrder(t.Context(), q, "march-0", "anna")
	require.NoError(t, err)
	held, err = ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, "otto", held.By(), "a person's pause stays")
	require.Equal(t, 1, waits(t, q, "march"))
}
