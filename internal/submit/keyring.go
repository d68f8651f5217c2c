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
	// faultDenials is the number of denials after which an order is at fault itself. A
	// denial counts if another order was then accepted on the same pair.
	faultDenials = 2
	// deniedPatience is how long a denied order waits in hand for that evidence.
	deniedPatience = 30 * time.Second
	// memorySize is the largest number of orders that the keyring remembers.
	memorySize = 4096
)

// keyring holds the account's key pairs, which pair is in use, and what the API's
// answers showed about each pair.
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

// pairState is a pair and what the answers showed about it. The pair itself never
// changes.
type pairState struct {
	KeyPair
	number int // 1-based place in the list

	// guarded by keyring.mu
	bad bool
	// accepted is the start of the last attempt with this pair that was accepted.
	accepted time.Time
}

// denial is the memory of a suspect order: one that was denied, or whose refusal was
// recalled.
type denial struct {
	pair   *pairState // of the last denial that is not proven yet; nil = none
	at     time.Time
	proven int // denials after which another order was accepted on the same pair
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

// where names the settings that hold the pairs.
func (k *keyring) where() string {
	if named, ok := k.source.(interface{ Where() string }); ok {
		return named.Where()
	}
	return "ORDERPOST_API_KEY and ORDERPOST_API_SECRET"
}

// take replaces the pairs and makes the first one active. A pair that stays keeps its
// accepted time, but is no longer bad.
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
		known = append(known[:len(known):len(known)], old.KeyPair) // an answer to a request in flight may show its key
	}
	k.scrub.Store(newScrubber(known))
	k.pairs, k.active = states, states[0]
	k.broadcast()
}

func (k *keyring) broadcast() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// use returns the active pair.
func (k *keyring) use() *pairState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active
}

// reload reads the pairs from the source again. If that fails, the pairs stay, and
// the error is logged once.
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
			k.log.Error().Str("error", k.lastErr).Msg("cannot reload the API keys; going on with the old ones")
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

// noteCreated notes that the order was created, and clears it of suspicion. accepted
// says that this attempt created it, which proves that the pair was good when the
// attempt began.
func (k *keyring) noteCreated(p *pairState, began time.Time, orderNo string, accepted bool) {
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

// markBad marks a pair as bad and switches to the first good one. none says that all
// pairs are bad.
func (k *keyring) markBad(p *pairState) (next *pairState, none bool) {
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

// retryAll clears the marks if all pairs are bad, and switches to the first pair.
func (k *keyring) retryAll() {
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

// suspect remembers an order whose refusal was recalled. At a trial, other orders go
// first.
func (k *keyring) suspect(orderNo string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remember(orderNo)
}

// remember returns the order's entry, which it creates if there is none. The caller
// holds k.mu.
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

// noteDenial notes a denial. ownFault says that the order has faultDenials proven
// denials.
func (k *keyring) noteDenial(orderNo string, p *pairState, at time.Time) (ownFault bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.remember(orderNo)
	d.countProven()
	if d.proven >= faultDenials {
		delete(k.denials, orderNo)
		return true
	}
	d.pair, d.at = p, at
	return false
}

// countProven counts the last denial as proven, once, if an attempt that began after
// it was accepted on the same pair.
func (d *denial) countProven() bool {
	if d.pair == nil || !d.pair.accepted.After(d.at) {
		return false
	}
	d.pair = nil
	d.proven++
	return true
}

// denialDecision says what becomes of a denied order.
type denialDecision uint8

const (
	denialHandBack denialDecision = iota // the pair is bad, or the submission must end
	denialRetry                          // the pair may work: try again
	denialReject                         // the pair works for other orders: this one is at fault
)

// await waits until it is known whether the pair or the order is at fault. If no
// other order tries the pair, the denied one must try it again itself.
func (k *keyring) await(ctx context.Context, g *gate.Gate, orderNo string, p *pairState) denialDecision {
	ctx, cancel := context.WithTimeout(ctx, deniedPatience)
	defer cancel()
	for {
		gateChanged := g.Changed()
		left, trying := g.SuspectWait(gate.BlockCredentials)
		k.mu.Lock()
		changed := k.changed
		d := k.remember(orderNo)
		switch proven := d.countProven(); {
		case proven && d.proven >= faultDenials:
			delete(k.denials, orderNo)
			k.mu.Unlock()
			return denialReject
		case proven:
			k.mu.Unlock()
			return denialRetry
		case p.bad || k.active != p:
			k.mu.Unlock()
			return denialHandBack
		}
		k.mu.Unlock()
		if g.IsDraining() {
			return denialHandBack
		}
		if trying && left <= 0 {
			return denialRetry
		}
		if !k.sleep(ctx, changed, gateChanged, left, trying) {
			return denialHandBack
		}
	}
}

// sleep waits for a or b, or for d if timed. It returns false if ctx ended.
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
