package settle

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Runtime is what the protocol needs from the machine: a clock and concurrency.
type Runtime interface {
	Now() time.Time
	// Sleep returns nil after d, or ctx's error when ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
	WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc)
	// Each calls do for 0 to n-1, at most limit calls at once, and returns the
	// first error after all calls have returned.
	Each(n, limit int, do func(i int) error) error
	// NewLock returns the lock under which a suspect order is handled alone
	// (R8).
	NewLock() Lock
	// Survivable reports whether a worker goes on after this panic. It always
	// does, except in simulations, where a panic is also how a process is
	// killed.
	Survivable(panicked any) bool
}

// Lock is a sync.RWMutex or behaves like one.
type Lock interface {
	sync.Locker
	RLock()
	RUnlock()
}

// RealTime returns the Runtime of a process.
func RealTime() Runtime { return realTime{} }

// realTime is the Runtime of a process.
type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

func (realTime) NewLock() Lock { return new(sync.RWMutex) }

func (realTime) Survivable(any) bool { return true }

func (realTime) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (realTime) WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, at)
}

func (realTime) Each(n, limit int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	var all errgroup.Group
	all.SetLimit(limit)
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}
