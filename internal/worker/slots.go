package worker

import (
	"context"
	"sync"
)

// slots counts the orders that are in hand. A slot is taken before a message
// is pulled, so that no message waits in this process while another worker is
// idle.
//
// Beside the orders that are at the API there may be more, on their way from the broker
// or to it: as many as prefetch says.
type slots struct {
	mu       sync.Mutex
	size     int
	prefetch func() int
	used     int // those of pulls under way included
	pulls    int // pulls under way, which hold the slots that they may fill

	ready func() int      // what the one who waits waits for; nil = nobody waits
	wake  chan struct{}   // room for one
	more  <-chan struct{} // prefetch may say more; nil = it never does by itself
}

func newSlots(n int, prefetch func() int) *slots {
	return &slots{size: n, prefetch: prefetch, wake: make(chan struct{}, 1)}
}

// takeForPull takes every free slot for one pull. It waits until none is under
// way, or a quarter of the slots is free beside those that wait in one:
// requests grow with the load instead of asking for one message each. One
// goroutine may wait at a time, here or in idle.
func (s *slots) takeForPull(ctx context.Context, most int) (n int, err error) {
	return s.await(ctx, func() int {
		all := s.size + s.prefetch() // once: it may say less a moment later
		free := all - s.used
		if s.pulls > 0 && 4*free < all {
			return 0
		}
		return min(free, most)
	}, func(n int) {
		s.used += n
		s.pulls++
	})
}

// pullDone ends a pull and gives back the slots that it did not fill.
func (s *slots) pullDone(unused int) { s.update(unused, -1) }

// release gives back one slot.
func (s *slots) release() { s.update(1, 0) }

func (s *slots) update(free, pulls int) {
	s.mu.Lock()
	s.used -= free
	s.pulls += pulls
	wake := s.ready != nil && s.ready() > 0
	if wake {
		s.ready = nil
	}
	s.mu.Unlock()
	if wake {
		select {
		case s.wake <- struct{}{}:
		default: // it is awake already
		}
	}
}

// idle waits until every slot is free.
func (s *slots) idle(ctx context.Context) error {
	_, err := s.await(ctx, func() int {
		if s.used > 0 || s.pulls > 0 {
			return 0
		}
		return 1
	}, func(int) {})
	return err
}

// await waits until ready returns more than 0, and passes that to do in the same moment. Both
// are called with the lock held.
func (s *slots) await(ctx context.Context, ready func() int, do func(n int)) (int, error) {
	for {
		s.mu.Lock()
		if n := ready(); n > 0 {
			do(n)
			s.mu.Unlock()
			return n, nil
		}
		s.ready = ready
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.more:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
