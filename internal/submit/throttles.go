package submit

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxThrottled is the largest number of orders whose throttles are remembered.
	maxThrottled = 4096
	// ownEnough is the number of own throttles in a row from which an order's throttles
	// count against its retry budget.
	ownEnough = 5
	// ownWait is the shortest wait after an own throttle.
	ownWait = time.Second
)

// throttles finds out whether a throttle concerns the pool or only one order. An
// order's own throttle must not stop the others.
//
// An API that receives requests too fast throttles any order and accepts it later. So
// a throttle is an order's own if the order was throttled before, and since then other
// orders were settled, no other order was throttled for the first time, and no
// throttled order was settled.
type throttles struct {
	settled atomic.Uint64 // orders that the API accepted or refused
	known   atomic.Int64  // len(orders)

	mu     sync.Mutex
	shared uint64 // first throttles of orders, and settled orders that were throttled
	orders map[string]*throttledOrder
}

type throttledOrder struct {
	shared, settled uint64 // the counters at its last throttle
	own             int    // own throttles in a row
	at              time.Time
}

// throttled counts a throttle of an order. It returns the number of its own throttles
// in a row; 0 = this throttle concerns the pool.
func (t *throttles) throttled(orderNo string) (own int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, settled := time.Now(), t.settled.Load()
	o := t.orders[orderNo]
	switch {
	case o == nil:
		t.shared++
		t.makeRoom(now)
		o = &throttledOrder{}
		t.orders[orderNo] = o
		t.known.Store(int64(len(t.orders)))
	case o.shared == t.shared && o.settled < settled:
		o.own++
	case o.shared == t.shared && o.own > 0: // no evidence to the contrary
	default:
		o.own = 0
	}
	o.shared, o.settled, o.at = t.shared, settled, now
	return o.own
}

// makeRoom removes the order that was throttled longest ago, if there are too many.
func (t *throttles) makeRoom(now time.Time) {
	if t.orders == nil {
		t.orders = make(map[string]*throttledOrder)
	}
	if len(t.orders) < maxThrottled {
		return
	}
	oldest, at := "", now.Add(time.Hour)
	for no, o := range t.orders {
		if o.at.Before(at) {
			oldest, at = no, o.at
		}
	}
	delete(t.orders, oldest)
}

// settle counts an order that the API has accepted or refused.
func (t *throttles) settle(orderNo string) {
	t.settled.Add(1)
	if t.known.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.orders[orderNo] == nil {
		return
	}
	t.shared++
	delete(t.orders, orderNo)
	t.known.Store(int64(len(t.orders)))
}
