package importer

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// ordered runs the jobs that feed submits, at most n at once. It passes their results
// to apply in the order of submission. It stops at the first error and returns it.
func ordered[T any](ctx context.Context, n int, feed func(ctx context.Context, submit func(job func(context.Context) (T, error)) error) error, apply func(T) error) error {
	type future struct {
		value T
		err   error
		done  chan struct{}
	}
	all, ctx := errgroup.WithContext(ctx)
	queue := make(chan *future, max(n-2, 0)) // one more job is being submitted, and one result is being applied
	all.Go(func() error {
		defer close(queue)
		return feed(ctx, func(job func(context.Context) (T, error)) error {
			f := &future{done: make(chan struct{})}
			select {
			case queue <- f:
			case <-ctx.Done():
				return ctx.Err()
			}
			all.Go(func() error {
				defer close(f.done)
				f.value, f.err = job(ctx)
				return nil
			})
			return nil
		})
	})
	all.Go(func() error {
		for f := range queue {
			<-f.done
			if f.err != nil {
				return f.err
			}
			if err := apply(f.value); err != nil {
				return err
			}
		}
		return nil
	})
	return all.Wait()
}
