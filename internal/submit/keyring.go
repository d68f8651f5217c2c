package submit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/submit/gate"
)

const (
	// faultDenials is how often an order must be denied, each time followed by
	// the acceptance of another order on the same pair, before the fault is its own.
	faultDenials = 2
	// deniedPatience is how long a denied order waits in hand for the evidence.
	deniedPatience = 30 * time.Second
	// memorySize bounds what is remembered of single orders.
	memorySize = 4096
)

// keyring holds the account's key pairs, the one in use, and what is known of
// each.
type keyring struct {
	source KeySource
	log    zerolog.Logger
	scrub  atomic.Pointer[scrubber]

	mu      sync.Mutex
	pairs   []*pairState
	active  *pairState
	denials map[string]*denial // by order number
	changed chan struct{}
	lastErr string
}

// pairState is a pair and what was seen of it. The pair itself never changes.
type pairState struct {
	KeyPair
	number int // 1-based place in the list

	// guarded by keyring.mu
	bad bool
	// accepted is when the last attempt that was accepted on this pair began.
	accepted time.Time
}

// denial is what is remembered of an order that was denied, or called back as
// refused.
type denial struct {
	pair   *pairState // on which it was denied last; nil = called back
	at     time.Time
	proven int // denials that another order's acceptance on the same pair followed
}

func newKeyring(source KeySource, log zerolog.Logger) (*keyring, error) {
	k := &keyring{source: source, log: log, denials: map[string]*denial{}, changed: make(chan struct{})}
	pairs, err := source.Pairs()
	if err == nil {
		err = checkPairs(pairs)
	}
	if err != nil {
		return nil, err
	}
	k.take(pairs)
	return k, nil
}

// where names the settings that the pairs come from.
func (k *keyring) where() string {
	if named, ok := k.source.(interface{ Where() string }); ok {
		return named.Where()
	}
	return "ORDERPOST_API_KEY and ORDERPOST_API_SECRET"
}

// take replaces the pairs, and starts again with the first. What is known of a
// pair that stays is kept, but for its being bad.
func (k *keyring) take(pairs []KeyPair) {
	var states []*pairState
	known := pairs
	for i, p := range pairs {
		s := &pairState{KeyPair: p, number: i + 1}
		for _, old := range k.pairs {
			if old.same(p) {
				s.accepted = old.accepted
			}
		}
		states = append(states, s)
	}
	for _, old := range k.pairs {
		known = append(known[:len(known):len(known)], old.KeyPair) // answers to requests under way may name it
	}
	k.scrub.Store(newScrubber(known))
	k.pairs, k.active = states, states[0]
	k.broadcast()
}

func (k *keyring) broadcast() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// use gives the pair for the next request.
func (k *keyring) use() *pairState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active
}

// reload asks the source again. A source that fails leaves things as they are;
// it is logged once.
func (k *keyring) reload() (changed bool) {
	pairs, err := k.source.Pairs()
	if err == nil {
		err = checkPairs(pairs)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if err.Error() != k.lastErr {
			k.lastErr = err.Error()
			k.log.Error().Str("error", k.lastErr).Msg("API keys not reloaded, going on with the old ones")
		}
		return false
	}
	k.lastErr = ""
	if k.equal(pairs) {
		return false
	}
	k.take(pairs)
	k.log.Info().Int("pairs", len(pairs)).Stringer("key", k.active.KeyPair).Msg("API keys reloaded")
	return true
}

func (k *keyring) equal(pairs []KeyPair) bool {
	if len(pairs) != len(k.pairs) {
		return false
	}
	for i, p := range pairs {
		if !k.pairs[i].same(p) {
			return false
		}
	}
	return true
}

// works notes an order that was created, and forgets what it was suspected of.
// accepted: now, which proves that the pair was good when the attempt began.
func (k *keyring) works(p *pairState, began time.Time, orderNo string, accepted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.denials, orderNo)
	if accepted && began.After(p.accepted) {
		p.accepted = began
		if len(k.denials) > 0 {
			k.broadcast()
		}
	}
}

// spoil marks a pair as bad and goes on to the next one that is not. none: all
// of them are bad.
func (k *keyring) spoil(p *pairState) (next *pairState, none bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.bad = true
	k.broadcast()
	if k.active != p {
		return k.active, false
	}
	for _, s := range k.pairs {
		if !s.bad {
			k.active = s
			return s, false
		}
	}
	return k.active, true
}

// afresh gives every pair another chance, from the first on, if all are bad.
func (k *keyring) afresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.pairs {
		if !s.bad {
			return
		}
	}
	for _, s := range k.pairs {
		s.bad = false
	}
	k.active = k.pairs[0]
}

// suspect remembers that an order was called back as refused, so that it does
// not spoil a trial.
func (k *keyring) suspect(orderNo string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remember(orderNo)
}

// remember gives the order's entry. The caller holds the lock.
func (k *keyring) remember(orderNo string) *denial {
	if d := k.denials[orderNo]; d != nil {
		return d
	}
	if len(k.denials) >= memorySize {
		for old := range k.denials { // any one
			delete(k.denials, old)
			break
		}
	}
	d := &denial{}
	k.denials[orderNo] = d
	return d
}

func (k *keyring) suspected(orderNo string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.denials[orderNo] != nil
}

// deny notes a denial. ownFault: the order was denied often enough while
// others were accepted in between.
func (k *keyring) deny(orderNo string, p *pairState, at time.Time) (ownFault bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.remember(orderNo)
	d.weigh()
	if d.proven >= faultDenials {
		delete(k.denials, orderNo)
		return true
	}
	d.pair, d.at = p, at
	return false
}

// weigh counts the last denial as proven, once, if another order was accepted
// on its pair by an attempt that began after it.
func (d *denial) weigh() bool {
	if d.pair == nil || !d.pair.accepted.After(d.at) {
		return false
	}
	d.pair = nil
	d.proven++
	return true
}

// fate is what becomes of a denied order.
type fate uint8

const (
	fateHandBack fate = iota // the pair is bad, or the visit must end
	fateAgain                // the pair may work: ask once more
	fateOwnFault             // the pair works for others, again and again
)

// await waits until it is known whether a denial was the order's own fault. If
// no other order is there to try the pair, the denied one must do it itself.
func (k *keyring) await(ctx context.Context, g *gate.Gate, orderNo string, p *pairState) fate {
	ctx, cancel := context.WithTimeout(ctx, deniedPatience)
	defer cancel()
	for {
		gateChanged := g.Changed()
		left, trying := g.SuspectWait(gate.BlockCredentials)
		k.mu.Lock()
		changed := k.changed
		d := k.remember(orderNo)
		switch proven := d.weigh(); {
		case proven && d.proven >= faultDenials:
			delete(k.denials, orderNo)
			k.mu.Unlock()
			return fateOwnFault
		case proven:
			k.mu.Unlock()
			return fateAgain
		case p.bad || k.active != p:
			k.mu.Unlock()
			return fateHandBack
		}
		k.mu.Unlock()
		if g.IsDraining() {
			return fateHandBack
		}
		if trying && left <= 0 {
			return fateAgain
		}
		if !k.sleep(ctx, changed, gateChanged, left, trying) {
			return fateHandBack
		}
	}
}

// sleep returns at a change, after the time if timed, or false with ctx.
func (k *keyring) sleep(ctx context.Context, a, b <-chan struct{}, d time.Duration, timed bool) bool {
	var due <-chan time.Time
	if timed {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-a:
	case <-b:
	case <-due:
	case <-ctx.Done():
		return false
	}
	return true
}
