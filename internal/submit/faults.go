package submit

import (
	"sync"
	"time"

	"orderpost/internal/order"
)

// A failure may be the fault of one order, or of what all orders share: the key, the API's
// limit, the settings. Only a comparison tells: the order is at fault itself if the API
// serves others meanwhile.
//
//	kind       the order's own, if since its last failure      proofs    until then the order
//	throttle   others were served, and none was throttled for  1         waits at the gate with all;
//	           the first time or served after a throttle                 then for itself, 1 s or longer;
//	                                                                     from the 5th proof on it counts
//	                                                                     against the retry budget
//	denial     an attempt that began later was accepted on     2         waits in hand, 30 s at most;
//	           the same pair                                             then it is rejected
//	refusal    any order was created (refusals.go)             1         waits in hand, 15 s at most
//
// A refused timestamp is evidence against none of them (conclude.go).
const (
	throttleProofs = 5
	throttleWait   = time.Second
	denialProofs   = 2
	denialWait     = 30 * time.Second
	refusalWait    = 15 * time.Second
	// faultsRemembered is the largest number of orders that are remembered.
	faultsRemembered = 4096
)

// faultKind is a kind of failure whose proofs are counted for each order.
type faultKind uint8

const (
	faultThrottle faultKind = iota
	faultDenial
	faultKinds
)

// shared is what orders share, a key pair or the API: when it served an order last, and
// when it was last seen to fail by itself. faults.mu guards it.
type shared struct{ good, bad time.Time }

// suspicion is what one kind of failure showed about one order.
type suspicion struct {
	of     *shared   // of the last failure, as long as that is not proven
	at     time.Time // the last failure
	proven int       // failures in a row that were the order's own
}

// prove counts the last failure as the order's own if others were served since.
func (s *suspicion) prove() bool {
	if s.of == nil || !s.of.good.After(s.at) {
		return false
	}
	s.proven++
	return true
}

// suspect is an order that failed.
type suspect struct {
	by       [faultKinds]suspicion
	recalled bool // its refusal was called back
}

// faults remembers what orders failed, and finds out whether they are at fault themselves.
type faults struct {
	mu      sync.Mutex
	orders  map[string]*suspect
	api     shared
	changed chan struct{} // closed and renewed when a pair accepts an order
}

func newFaults() *faults {
	return &faults{orders: map[string]*suspect{}, changed: make(chan struct{})}
}

// remember returns the order's entry, which it creates if there is none. The caller
// holds f.mu.
func (f *faults) remember(orderNo string) *suspect {
	if s := f.orders[orderNo]; s != nil {
		return s
	}
	if len(f.orders) >= faultsRemembered {
		for old := range f.orders { // any one
			delete(f.orders, old)
			break
		}
	}
	s := &suspect{}
	f.orders[orderNo] = s
	return s
}

// failed notes a failure, and returns how many in a row were the order's own; 0 = it is
// not known to be at fault.
func (f *faults) failed(kind faultKind, orderNo string, of *shared, at time.Time) (proven int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.remember(orderNo).by[kind]
	if first := s.at.IsZero(); first && kind == faultThrottle {
		of.bad = at // it throttles any order
	} else if of.bad.After(s.at) {
		s.proven = 0
	} else {
		s.prove()
	}
	s.of, s.at = of, at
	return s.proven
}

// recall notes that an order's refusal was called back.
func (f *faults) recall(orderNo string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remember(orderNo).recalled = true
}

// suspected reports whether the order was denied or its refusal was called back. At a
// trial, other orders go first.
func (f *faults) suspected(orderNo string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.orders[orderNo]
	return s != nil && (s.recalled || s.by[faultDenial] != (suspicion{}))
}

// concluded notes that the API accepted or refused the order, by an attempt that began
// then. Only an acceptance proves that the pair was good.
func (f *faults) concluded(orderNo string, v order.Verdict, pair *pairState, began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.api.good = now
	if s := f.orders[orderNo]; s != nil {
		if s.by[faultThrottle] != (suspicion{}) { // the limit was not the order's
			f.api.bad, s.by[faultThrottle] = now, suspicion{}
		}
		if v.Exists() || *s == (suspect{}) {
			delete(f.orders, orderNo)
		}
	}
	if v.Created() && began.After(pair.shared.good) {
		pair.shared.good = began
		if len(f.orders) > 0 {
			close(f.changed)
			f.changed = make(chan struct{})
		}
	}
}

// forget forgets an order that was found at fault.
func (f *faults) forget(orderNo string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.orders, orderNo)
}

// provenSince returns how many denials of the order are proven, and whether the last one
// was proven since the call before. changed is closed when that may change.
func (f *faults) provenSince(orderNo string) (proven int, fresh bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.remember(orderNo).by[faultDenial]
	if fresh = s.prove(); fresh {
		s.of = nil // counted
	}
	return s.proven, fresh, f.changed
}
