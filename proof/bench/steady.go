package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// publishSteadily publishes s.rate orders a second, each when it is due,
// whether the one before is stored or not.
func (s *stage) publishSteadily(ctx context.Context) error {
	if err := s.untilReady(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for i := range s.orders {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(s.rate))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		all.Go(func() {
			if _, err := s.queue.Producer.Publish(ctx, intent(i, time.Now())); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failed
}

// untilReady sends one order ahead and waits until the API has it.
func (s *stage) untilReady(ctx context.Context) error {
	if _, err := s.queue.Producer.Publish(ctx, intent(s.orders, time.Now())); err != nil {
		return err
	}
	for {
		seen, err := s.api.seen(ctx, false)
		if err == nil && seen.Orders > 0 {
			return nil
		}
		if ended := s.workers[0].lookAgain(ctx); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// allAccepted reads our worker's books: every order has an outcome, and it is accepted.
func (s *stage) allAccepted(ctx context.Context) error {
	n := 0
	err := queue.EachRecord(ctx, s.queue, func(r *order.Record) error {
		n++
		if r.Outcome() != order.OutcomeAccepted {
			return fmt.Errorf("order %s: %s: %s", r.OrderNo, r.Word, r.Reason)
		}
		return nil
	})
	if err == nil && n < s.orders {
		err = fmt.Errorf("%d outcomes are stored of %d", n, s.orders)
	}
	return err
}
