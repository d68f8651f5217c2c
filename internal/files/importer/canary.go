package importer

import (
	"context"
	"fmt"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// CanaryError is the error of an import whose first orders were not all accepted.
type CanaryError struct{ Orders int }

// Error says that nothing else was enqueued.
func (e *CanaryError) Error() string {
	return fmt.Sprintf("not all of the first %d orders were accepted, so nothing else was enqueued", e.Orders)
}

// Store publishes a checked file. With Sending.Canary, so many orders go first, and the rest
// follows once all of them are accepted; follow is told how far they are. Errors: those of
// [File.Publish], and *[CanaryError].
func (f *File) Store(ctx context.Context, q *queue.Queue, checked Summary, follow func(Progress)) (*Result, error) {
	if f.o.Canary > 0 && f.o.Canary < checked.Rows {
		done, err := f.publishFirst(ctx, q, checked, f.o.Canary)
		if err != nil {
			return done, err
		}
		p, err := done.Wait(ctx, q, follow)
		if err == nil && (!done.AllFine() || p.Outcomes[order.OutcomeAccepted] != p.Settled) {
			err = &CanaryError{f.o.Canary}
		}
		if err != nil {
			return done, err
		}
	}
	return f.Publish(ctx, q, checked)
}
