package settle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

// Lease is the claim on one delivered message (R7). It runs from the sending
// of the last request that the server answered: the pull, or a progress
// report. It is over when AckWait less a margin has passed by either clock, or
// when the connection was lost; it never comes back.
//
// One gap cannot be closed: a process that is frozen between Valid and the
// socket write sends its request when it wakes.
type Lease struct {
	keeper *keeper
	id     uint64
	reply  string
	seq    uint64 // of the message in its stream
	count  uint64 // the broker's number of the delivery

	mu     sync.Mutex
	since  time.Time            // wall and monotonic
	sent   map[uint64]time.Time // progress requests that are not answered, by serial
	asked  time.Time            // when the last of them was sent
	serial uint64
	over   bool
	cancel func()
}

// Valid says whether the claim still certainly holds.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.validAt(l.keeper.now())
}

func (l *Lease) validAt(now time.Time) bool {
	if !l.over && age(l.since, now) >= l.keeper.term {
		l.end()
	}
	return !l.over
}

// age takes the later of the two clocks: a suspended machine stops the
// monotonic one, and a corrected wall clock may jump.
func age(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

func (l *Lease) end() {
	if !l.over {
		l.over = true
		l.keeper.lost.Add(1)
		if l.cancel != nil {
			l.cancel()
		}
	}
}

func (l *Lease) endNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// Fence returns order.ErrLeaseLost once the claim is over. Ask it directly before
// anything that only the owner may do.
func (l *Lease) Fence() error {
	if !l.Valid() {
		return order.ErrLeaseLost
	}
	return nil
}

// Bound returns a context that ends with the given cause when the claim does.
// Call the returned function when done.
func (l *Lease) Bound(parent context.Context, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = func() { cancel(cause) }
	if l.over {
		cancel(cause)
	}
	return ctx, func() { cancel(nil) }
}

// release stops extending the claim.
func (l *Lease) release() { l.keeper.forget(l) }

// keeper extends the claims of everything in flight.
type keeper struct {
	q      *Protocol
	now    func() time.Time
	term   time.Duration // how long a claim lasts without an answer
	period time.Duration

	mu     sync.Mutex
	leases map[uint64]*Lease
	bySeq  map[uint64]*Lease // the latest claim on each message
	nextID uint64

	inbox string // of the broker's answers
	lost  atomic.Uint64
}

func newKeeper(q *Protocol) *keeper {
	return &keeper{q: q, now: q.time.Now, leases: make(map[uint64]*Lease), bySeq: make(map[uint64]*Lease)}
}

func (k *keeper) setTerm(ackWait time.Duration) { k.term, k.period = ackWait-ackWait/10, ackWait/20 }

// claim makes a lease that runs since the given time. A message that this worker
// has in hand already was taken from it: a former owner's late NAK made the
// broker deliver it again. Only the later delivery owns the message then, so the
// earlier claim ends at once (R7).
func (k *keeper) claim(reply string, seq, count uint64, since time.Time) *Lease {
	l := &Lease{keeper: k, reply: reply, seq: seq, count: count, since: since}
	k.mu.Lock()
	k.nextID++
	l.id = k.nextID
	k.leases[l.id] = l
	stale := k.bySeq[seq]
	if stale != nil && stale.count > count { // two pulls' messages may pass each other on their way
		stale = l
	} else {
		k.bySeq[seq] = l
	}
	k.mu.Unlock()
	if stale != nil {
		stale.endNow()
	}
	return l
}

func (k *keeper) forget(l *Lease) {
	k.mu.Lock()
	delete(k.leases, l.id)
	if k.bySeq[l.seq] == l {
		delete(k.bySeq, l.seq)
	}
	k.mu.Unlock()
}

func (k *keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*Lease, 0, len(k.leases))
	for _, l := range k.leases {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *Lease) int { return cmp.Compare(a.id, b.id) }) // the same again in simulated time
	return out
}

// endAll ends every claim: the connection was lost, and nobody knows what the
// server does meanwhile.
func (k *keeper) endAll() {
	for _, l := range k.all() {
		l.endNow()
	}
}

// extend asks the server for more time for every claim that has used up a
// third of its own. A request for a claim that is over would extend its new
// owner's, so that none is sent.
func (k *keeper) extend() {
	now := k.now()
	for _, l := range k.all() {
		l.mu.Lock()
		due := l.validAt(now) && age(l.since, now) >= k.term/3 &&
			age(l.asked, now) >= 2*k.period
		over := l.over
		if due {
			l.ask(now)
		}
		answer := fmt.Sprintf("%s.%d.%d", k.inbox, l.id, l.serial)
		l.mu.Unlock()
		switch {
		case over:
			k.forget(l)
		case due:
			_ = k.q.store.Extend(l.reply, answer) // not sent: the claim ends by itself
		}
	}
}

// ask notes that a progress request is sent. The sending times of the
// unanswered ones are kept, so that a broker which answers slower than requests
// are sent is heard nevertheless.
func (l *Lease) ask(now time.Time) {
	if l.sent == nil {
		l.sent = make(map[uint64]time.Time)
	}
	l.serial++
	l.sent[l.serial], l.asked = now, now
}

// confirm: the server took the progress request of this serial. An answer that
// is read after the claim is over does not revive it: the server may have given
// the message to somebody else before, and extended that claim (R7).
func (l *Lease) confirm(serial uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent, known := l.sent[serial]
	if !known || !l.validAt(now) {
		return
	}
	l.since = sent
	for s := range l.sent {
		if s <= serial {
			delete(l.sent, s)
		}
	}
}

// hear reads from the answer's subject what it answers.
func (k *keeper) hear(subject string) {
	idText, serialText, _ := strings.Cut(strings.TrimPrefix(subject, k.inbox+"."), ".")
	id, err1 := strconv.ParseUint(idText, 10, 64)
	serial, err2 := strconv.ParseUint(serialText, 10, 64)
	if err1 != nil || err2 != nil {
		return
	}
	k.mu.Lock()
	l := k.leases[id]
	k.mu.Unlock()
	if l != nil {
		l.confirm(serial, k.now())
	}
}
