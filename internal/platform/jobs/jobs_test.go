package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }

func waits(ctx context.Context, job *Job) (any, error) {
	job.Tell(Progress{Step: "waiting", Done: 1, Of: 4})
	<-ctx.Done()
	return "half", ctx.Err()
}

// TestJobs run beside whoever started them, a bounded number at once, and keep what
// they found.
func TestJobs(t *testing.T) {
	caller, leave := context.WithCancel(t.Context())
	jobs := NewJobs(caller)
	defer jobs.Close()
	first, err := jobs.Start(Spec{Kind: "audit", Title: "Audit", By: "anna", Key: "audit"}, waits)
	require.NoError(t, err)
	leave() // the request that started it is over
	require.Eventually(t, func() bool { return first.Progress().Percent() == 25 }, time.Minute, time.Millisecond)
	require.Equal(t, Running, first.State())

	_, err = jobs.Start(Spec{Kind: "audit", Title: "Audit", By: "bo", Key: "audit"}, waits)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	require.Same(t, first, busy.Job)
	for range atOnce - 1 {
		_, err = jobs.Start(Spec{Kind: "replay", Title: "Replay", By: "bo"}, waits)
		require.NoError(t, err)
	}
	_, err = jobs.Start(Spec{Kind: "replay", Title: "Replay", By: "bo"}, waits)
	require.ErrorAs(t, err, &busy)
	require.Nil(t, busy.Job)
	check, err := jobs.Start(Spec{Kind: "check", Title: "Check", By: "bo", Key: "upload", Unbounded: true}, waits)
	require.NoError(t, err)
	require.Same(t, check, jobs.Running("upload"))
	check.Stop("bo")
	require.NoError(t, check.Wait(t.Context()))
	require.Nil(t, jobs.Running("upload"))
	_, err = jobs.Start(Spec{Kind: "check", Title: "Check", By: "bo", Key: "upload", Unbounded: true, Once: true}, waits)
	require.ErrorAs(t, err, &busy)
	require.Same(t, check, busy.Job, "nobody had seen that it ran")
	again, err := jobs.Start(Spec{Kind: "check", Title: "Check", By: "bo", Key: "upload", Unbounded: true, Once: true, After: check}, waits)
	require.NoError(t, err)
	require.Same(t, again, jobs.Last("upload"))
	again.Stop("bo")
	require.NoError(t, again.Wait(t.Context()))

	first.Stop("bo")
	require.NoError(t, first.Wait(t.Context()))
	require.Equal(t, Stopped, first.State())
	require.Equal(t, "bo", first.Stopper())
	result, _ := first.Result()
	require.Equal(t, "half", result)

	broken, err := jobs.Start(Spec{Kind: "replay", Title: "Replay", By: "bo"}, func(context.Context, *Job) (any, error) { return nil, errors.New("no room") })
	require.NoError(t, err)
	require.NoError(t, broken.Wait(t.Context()))
	require.Equal(t, Failed, broken.State())
	require.Same(t, broken, jobs.List()[0])
	require.Same(t, broken, jobs.Find(broken.ID))

	for range keep + 10 {
		job, err := jobs.Start(Spec{Kind: "short", Title: "Short", By: "bo"}, func(context.Context, *Job) (any, error) { return nil, nil })
		require.NoError(t, err)
		require.NoError(t, job.Wait(t.Context()))
	}
	require.LessOrEqual(t, len(jobs.List()), keep+atOnce)
	require.Nil(t, jobs.Find(broken.ID), "forgotten")
	jobs.Close()
	_, err = jobs.Start(Spec{Kind: "late", Title: "Late", By: "bo"}, waits)
	require.ErrorIs(t, err, ErrClosing)
}

// A job that starts while the registry closes is waited for, or does not start.
func TestNoJobRunsAfterClose(t *testing.T) {
	for range 3000 {
		all := NewJobs(t.Context())
		var closed atomic.Bool
		late := make(chan bool, 1)
		begin := make(chan struct{})
		go func() {
			<-begin
			_, err := all.Start(Spec{}, func(context.Context, *Job) (any, error) {
				late <- closed.Load()
				return nil, nil
			})
			if err != nil {
				require.ErrorIs(t, err, ErrClosing)
				late <- false
			}
		}()
		close(begin)
		all.Close()
		closed.Store(true)
		require.False(t, <-late)
	}
}
