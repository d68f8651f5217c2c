package patient

import (
	"sync/atomic"
	"testing"
	"time"
)

// WatchStalls returns how long this process stood still at most within two seconds since
// then, because others had the processor.
func WatchStalls(t *testing.T) (longest func() time.Duration) {
	const tick = 5 * time.Millisecond
	var worst atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var late [2]time.Duration // in this second and the one before
		second := time.Now()
		for last := second; t.Context().Err() == nil; {
			time.Sleep(tick)
			now := time.Now()
			if now.Sub(second) >= time.Second {
				late, second = [2]time.Duration{0, late[0]}, now
			}
			late[0] += max(now.Sub(last)-2*tick, 0)
			last = now
			worst.Store(max(worst.Load(), int64(late[0]+late[1])))
		}
	}()
	t.Cleanup(func() { <-done })
	return func() time.Duration { return time.Duration(worst.Load()) }
}
