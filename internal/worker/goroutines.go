package worker

import (
	"sync/atomic"
	"time"

	"orderpost/internal/settle"
)

// goroutines handle deliveries, each one after another: a new goroutine for each
// delivery would grow its stack anew each time. Those that only a burst needed exit.
type goroutines struct {
	handle func(d *settle.Delivery, pulled time.Time)
	jobs   chan job
	leave  chan struct{}
	ended  chan struct{}

	idle   atomic.Int64 // goroutines that wait
	spared atomic.Int64 // the fewest that waited since the last look
}

type job struct {
	delivery *settle.Delivery
	pulled   time.Time
}

// idleLook is how often look runs: idle goroutines exit after 10 to 20 seconds.
const idleLook = 10 * time.Second

func newGoroutines(handle func(*settle.Delivery, time.Time)) *goroutines {
	return &goroutines{handle: handle, jobs: make(chan job), leave: make(chan struct{}), ended: make(chan struct{})}
}

// dispatch hands a delivery to a goroutine that waits, or to a new one. The slots
// bound their number.
func (h *goroutines) dispatch(d *settle.Delivery, pulled time.Time) {
	j := job{d, pulled}
	select {
	case h.jobs <- j:
		h.took()
	default:
		h.spared.Store(0)
		go h.work(j)
	}
}

// took notes that one more is busy.
func (h *goroutines) took() {
	idle := h.idle.Add(-1)
	for least := h.spared.Load(); idle < least && !h.spared.CompareAndSwap(least, idle); least = h.spared.Load() {
	}
}

func (h *goroutines) work(j job) {
	for {
		h.handle(j.delivery, j.pulled)
		h.idle.Add(1)
		select {
		case j = <-h.jobs:
		case <-h.leave:
			h.idle.Add(-1)
			return
		case <-h.ended:
			return
		}
	}
}

// look lets those go that were idle all the time since the last look, until the
// end.
func (h *goroutines) look() {
	tick := time.NewTicker(idleLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ended:
			return
		}
		for n := h.spared.Swap(h.idle.Load()); n > 0; n-- {
			select {
			case h.leave <- struct{}{}:
			default: // they are at work again
			}
		}
	}
}

// end lets those that wait go.
func (h *goroutines) end() { close(h.ended) }

// instant is how long an order may wait in hand for its turn at the API: about
// as long as the broker takes to bring one and to take a result.
const instant = 25 * time.Millisecond

// maxPrefetch bounds the prefetch of a pool with few slots, where a quarter of
// them would be less.
const maxPrefetch = 64

// latencyAverage is a moving average of how long submissions take: requests, and what they
// wait for, the rate limit for instance.
type latencyAverage struct{ mean atomic.Int64 } // nanoseconds; 0 = not known

func (p *latencyAverage) note(d time.Duration) {
	took := max(int64(d), int64(time.Millisecond))
	mean := p.mean.Load()
	if mean == 0 {
		p.mean.Store(took)
		return
	}
	p.mean.Store(mean + (took-mean)/64)
}

// prefetch is how many of n orders in flight are over within an instant. With a
// slow API, or a rate limit, there are none: orders are left to workers that have nothing to do.
func (p *latencyAverage) prefetch(n int) int {
	mean := time.Duration(p.mean.Load())
	if mean == 0 {
		return 0
	}
	most := max(n/4, min(n-1, maxPrefetch))
	return int(min(int64(most), int64(n)*int64(instant)/int64(mean)))
}
