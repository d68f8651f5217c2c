package worker

import (
	"sync/atomic"
	"time"

	"orderpost/internal/settle"
)

// hands are goroutines that handle deliveries, one after another: a new one
// for each delivery would grow its stack anew each time. Those that a burst
// needed, and nothing has needed since, leave.
type hands struct {
	handle func(d *settle.Delivery, pulled time.Time)
	jobs   chan job
	leave  chan struct{}
	ended  chan struct{}

	idle   atomic.Int64 // hands that wait
	spared atomic.Int64 // the fewest that waited since the last look
}

type job struct {
	delivery *settle.Delivery
	pulled   time.Time
}

// handsLook is how long hands may be idle, and half of how long they are at
// most.
const handsLook = 10 * time.Second

func newHands(handle func(*settle.Delivery, time.Time)) *hands {
	return &hands{handle: handle, jobs: make(chan job), leave: make(chan struct{}), ended: make(chan struct{})}
}

// give hands a delivery to a goroutine that waits, or to a new one. The slots
// bound their number.
func (h *hands) give(d *settle.Delivery, pulled time.Time) {
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
func (h *hands) took() {
	idle := h.idle.Add(-1)
	for least := h.spared.Load(); idle < least && !h.spared.CompareAndSwap(least, idle); least = h.spared.Load() {
	}
}

func (h *hands) work(j job) {
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
func (h *hands) look() {
	tick := time.NewTicker(handsLook)
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
func (h *hands) end() { close(h.ended) }

// instant is how long an order may wait in hand for its turn at the API: about
// as long as the broker takes to bring one and to take a result.
const instant = 25 * time.Millisecond

// maxSpare bounds the spare slots of a pool with few slots, where a quarter of
// them would be less.
const maxSpare = 64

// tempo is a moving average of how long visits take: requests, and what they
// wait for, the rate limit for instance.
type tempo struct{ mean atomic.Int64 } // nanoseconds; 0 = not known

func (p *tempo) note(d time.Duration) {
	took := max(int64(d), int64(time.Millisecond))
	mean := p.mean.Load()
	if mean == 0 {
		p.mean.Store(took)
		return
	}
	p.mean.Store(mean + (took-mean)/64)
}

// spare is how many of n orders in flight are over within an instant. With a
// slow API, or a rate limit, there are none: orders are left to workers that have nothing to do.
func (p *tempo) spare(n int) int {
	mean := time.Duration(p.mean.Load())
	if mean == 0 {
		return 0
	}
	most := max(n/4, min(n-1, maxSpare))
	return int(min(int64(most), int64(n)*int64(instant)/int64(mean)))
}
