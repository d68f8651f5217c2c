package patient

import (
	"sync"
	"testing"
	"time"
)

// WatchStalls returns how long this process stood still at most within two seconds since
// then, because others had the processor.
func WatchStalls(t *testing.T) (longest func() time.Duration) {
	var mu sync.Mutex
	var s stalls
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			mu.Lock()
			s.tick(time.Now())
			mu.Unlock()
			time.Sleep(tick)
		}
	}()
	t.Cleanup(func() { <-done })
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return s.worst
	}
}

// tick is the time between two calls of stalls.tick in a process that runs.
const tick = 5 * time.Millisecond

// stalls sums up by how much ticks are late.
type stalls struct {
	last, second time.Time
	late         [2]time.Duration // in this second and the one before
	worst        time.Duration
}

func (s *stalls) tick(now time.Time) {
	if s.last.IsZero() {
		s.last, s.second = now, now
	}
	if now.Sub(s.second) >= time.Second {
		s.late, s.second = [2]time.Duration{0, s.late[0]}, now
	}
	s.late[0] += max(now.Sub(s.last)-2*tick, 0)
	s.last, s.worst = now, max(s.worst, s.late[0]+s.late[1])
}
