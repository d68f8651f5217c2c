package worker

import (
	"context"
	"sync"
)

// slots counts who may work. A slot is taken before a message is pulled, so
// that no message waits in this process while another worker is idle.
type slots struct {
	mu      sync.Mutex
	size    int
	free    int
	pulls   int // pulls under way, which hold the slots that they may fill
	changed chan struct{}
}

func newSlots(n int) *slots {
	return &slots{size: n, free: n, changed: make(chan struct{})}
}

// takeForPull takes every free slot for one pull. It waits until none is under
// way, or a quarter of the slots is free beside those that wait in one:
// requests grow with the load instead of asking for one message each.
func (s *slots) takeForPull(ctx context.Context, most int) (int, error) {
	for {
		s.mu.Lock()
		if n := min(s.free, most); n > 0 && (s.pulls == 0 || 4*s.free >= s.size) {
			s.free -= n
			s.pulls++
			s.mu.Unlock()
			return n, nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// pullDone ends a pull and gives back the slots that it did not fill.
func (s *slots) pullDone(unused int) { s.update(unused, -1) }

// release gives back one slot.
func (s *slots) release() { s.update(1, 0) }

func (s *slots) update(free, pulls int) {
	s.mu.Lock()
	s.free += free
	s.pulls += pulls
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

// idle waits until every slot is free.
func (s *slots) idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		idle, changed := s.free == s.size && s.pulls == 0, s.changed
		s.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
