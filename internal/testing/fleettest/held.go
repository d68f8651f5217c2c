package fleettest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Held plays a worker that is held, and returns when the fleet sees it. It moves what people
// cancel out of the waiting room, takes orders once there are cancellations, and gives those
// back that nobody cancelled. It ends when stop is called, or with the test. retire is
// imports.RetireCancellations; the tests of that package use this one, too.
func Held(t testing.TB, q *queue.Queue, retire func(context.Context, *queue.Queue) error) (stop func()) {
	t.Helper()
	ends, cancel := context.WithCancel(context.Background())
	ctx := context.WithoutCancel(ends) // a step that began is made, so that what it settles leaves the log
	control := fleet.New(q)
	handler := settle.NewHandler(q.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		return &order.Report{End: order.EndHandBack, History: s.History}
	}})
	step := func() {
		view, err := control.Read(ctx)
		if err != nil {
			return
		}
		q.Ledger.SetCancellations(view.Cancelled)
		_ = control.Appear(ctx, fleet.Presence{Worker: "held", ID: "1", Joined: true, Cancelled: view.Cancelled.Version})
		if view.Cancelled.Version == 0 {
			return
		}
		move(ctx, q, view.Cancelled)
		_ = q.Pull(ctx, 256, 10*time.Millisecond, func(ds []*settle.Delivery) {
			for _, d := range ds {
				handler.Handle(ctx, ctx, d, nil)
			}
		})
		_ = q.Trimmer.Trim(ctx)
		_ = retire(ctx, q)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for ends.Err() == nil {
			step()
		}
	})
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	require.Eventually(t, func() bool {
		present, err := control.Workers(t.Context())
		return err == nil && len(present) > 0
	}, time.Minute, 5*time.Millisecond)
	return stop
}

// move moves into the queue what is cancelled in the waiting room, as a feeder does.
func move(ctx context.Context, q *queue.Queue, cancelled settle.Cancellations) {
	list, err := q.Waiting.All(ctx)
	if err != nil {
		return
	}
	for _, w := range list {
		page, _, err := q.Waiting.Page(ctx, w.Subject, 0, w.Count)
		if err == nil && cancelled.CoversOf(w.Import, q.Waiting.Birth()) > 0 {
			_, _ = q.Mover.Move(ctx, settle.WaitingGroup{Messages: page, Whole: true, Birth: q.Waiting.Birth()})
		}
	}
	for _, m := range cancelled.Marks {
		for _, seq := range m.Found {
			if in, err := q.Store().WaitingAt(ctx, seq); err == nil && in != nil {
				_, _ = q.Mover.Move(ctx, settle.WaitingGroup{Messages: []*settle.Message{in}, Birth: q.Waiting.Birth()})
			}
		}
	}
}
