package worker

import (
	"sync/atomic"
	"time"
)

// maxPrefetch bounds the prefetch. While a disk syncs the results of some hundred orders,
// others are at the API.
const maxPrefetch = 448

// prefetch tells how many orders may be in hand beside those that are at the API, on their
// way from the broker or to it, so that the API does not wait for the broker.
type prefetch struct {
	slots    int
	submit   average // how long submissions take: requests, and what they wait for, the rate limit for instance
	settling average // how long the broker takes to store an outcome
}

// now returns as many as the API answers while the broker brings orders and stores
// outcomes: there and back takes about twice as long as storing one. With a slow API, or a
// rate limit, there are few: orders are left to workers that have nothing to do.
func (p *prefetch) now() int {
	submit, settling := p.submit.load(), p.settling.load()
	if submit == 0 || settling == 0 {
		return 0
	}
	most := min(7*(p.slots-1), maxPrefetch)
	return int(min(int64(most), int64(p.slots)*2*int64(settling)/int64(max(submit, time.Millisecond))))
}

// besideSlots returns how many orders may be in hand beside the slots; below 0 where a rate limit lets fewer through
// than there are slots.
func (p *Pool) besideSlots() int {
	return min(p.prefetch.now(), p.Submitter.Gate().InHand()-p.Concurrency)
}

// average is a moving average; 0 = not known. It is safe for concurrent use.
type average struct{ mean atomic.Int64 } // nanoseconds

func (a *average) load() time.Duration { return time.Duration(a.mean.Load()) }

func (a *average) note(d time.Duration) {
	mean := a.mean.Load()
	if mean == 0 {
		a.mean.Store(int64(d))
		return
	}
	a.mean.Store(mean + (int64(d)-mean)/64)
}
