package worker

import (
	"sync/atomic"
	"time"
)

// atomicDuration is a time.Duration that is safe for concurrent use.
type atomicDuration struct{ v atomic.Int64 }

func (a *atomicDuration) load() time.Duration   { return time.Duration(a.v.Load()) }
func (a *atomicDuration) store(d time.Duration) { a.v.Store(int64(d)) }
func (a *atomicDuration) swap(d time.Duration) time.Duration {
	return time.Duration(a.v.Swap(int64(d)))
}
