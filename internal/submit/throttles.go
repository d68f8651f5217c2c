package submit

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxThrottled bounds the orders whose throttles are remembered.
	maxThrottled = 4096
	// ownEnough is the number of throttles in a row, all an order's own, from
	// which they count against its retry budget.
	ownEnough = 5
	// ownWait is the least wait after an order's own throttle.
	ownWait = time.Second
)

// throttles tells a throttle that is about the pool from one that only one
// order gets, which must not stop the others.
//
// An API that is asked too fast throttles whatever order comes, and takes it
// later. So a throttle is the order's own if it is not its first, other orders have
// been settled since its last one, and since then no order has been throttled for
// the first time, or been settled after a throttle.
type throttles struct {
	settled atomic.Uint64 // orders that the API has accepted or refused
	known   atomic.Int64  // len(orders)

	mu     sync.Mutex
	shared uint64 // first throttles of orders, and settled orders that were throttled
	orders map[string]*throttledOrder
}

type throttledOrder struct {
	shared, settled uint64 // as they were at its last throttle
	own             int    // throttles of its own in a row
	at              time.Time
}

// throttled counts a throttle of an order and returns how many of the last ones
// in a row were shown to be its own; 0 = this one is the pool's.
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
	case o.shared == t.shared && o.own > 0: // nothing has happened that shows otherwise
	default:
		o.own = 0
	}
	o.shared, o.settled, o.at = t.shared, settled, now
	return o.own
}

// makeRoom forgets the order that was throttled longest ago.
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
