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
