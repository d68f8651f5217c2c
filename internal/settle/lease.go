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

// Lease is the claim on one delivered message (R7). It runs from the sending of
// the last request that the server answered: the pull, or a progress request.
// It ends when AckWait less a margin has passed by either clock, or when the
// connection is lost. A lease that has ended never becomes valid again.
//
// One gap cannot be closed: a process that is frozen between Valid and the
// socket write sends its request when it wakes.
type Lease struct {
	keeper *keeper
	id     uint64
	reply  string
	seq    uint64 // of the message in its stream
	count  uint64 // the broker's delivery count

	mu          sync.Mutex
	since       time.Time            // the claim runs from then, by the wall and the monotonic clock
	sent        map[uint64]time.Time // unanswered progress requests: sending time by serial
	requestedAt time.Time            // when the last progress request was sent
	serial      uint64
	over        bool
	cancel      func()
}

// Valid reports whether the claim certainly still holds.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.validAt(l.keeper.now())
}

// validAt is Valid at the given time, and ends a claim whose term has passed.
// The caller holds l.mu.
func (l *Lease) validAt(now time.Time) bool {
	if !l.over && l.keeper.age(l.since, now) >= l.keeper.term() {
		l.end()
	}
	return !l.over
}

// age returns the longer of the two clocks' differences. A suspended machine
// stops the monotonic clock, and a correction makes the wall clock jump.
func age(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// age is the function age, unless a mutation leaves one clock out.
func (k *keeper) age(since, now time.Time) time.Duration {
	switch k.q.mutation {
	case WallClockAlone:
		return now.Round(0).Sub(since.Round(0))
	case MonotonicAlone:
		return now.Sub(since)
	default:
		return age(since, now)
	}
}

// end ends the claim and the context of its attempts. The caller holds l.mu.
func (l *Lease) end() {
	if !l.over {
		l.over = true
		l.keeper.lost.Add(1)
		if l.cancel != nil {
			l.cancel()
		}
	}
}

// endNow is end for callers that do not hold l.mu.
func (l *Lease) endNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// Fence returns order.ErrLeaseLost once the claim has ended. Call it directly
// before anything that only the owner may do. For a POST it is not enough, see
// [Protocol.Fence].
func (l *Lease) Fence() error {
	if !l.Valid() {
		return order.ErrLeaseLost
	}
	return nil
}

// Bound returns a context that ends when the claim does, with the given cause.
// Call the returned function when the attempt is done.
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

// keeper extends the claims of all deliveries in flight.
type keeper struct {
	q       *Protocol
	now     func() time.Time
	ackWait atomic.Int64 // the consumer's AckWait, a time.Duration

	mu     sync.Mutex
	leases map[uint64]*Lease
	bySeq  map[uint64]*Lease // the latest claim on each message, by sequence
	nextID uint64

	inbox string        // subject prefix of the broker's answers
	lost  atomic.Uint64 // claims that ended before their release
}

func newKeeper(q *Protocol) *keeper {
	return &keeper{q: q, now: q.time.Now, leases: make(map[uint64]*Lease), bySeq: make(map[uint64]*Lease)}
}

// term returns how long a claim lasts without an answer.
func (k *keeper) term() time.Duration { a := k.ackWait.Load(); return time.Duration(a - a/10) }

// period returns the time between two calls of extend.
func (k *keeper) period() time.Duration { return time.Duration(k.ackWait.Load() / 20) }

// claim returns a lease that runs since the given time. If this worker already
// holds a claim on the message, the broker took the message away: a former
// owner's late NAK made the broker deliver it again. Only the later delivery
// owns the message then, so the earlier claim ends at once (R7).
func (k *keeper) claim(reply string, seq, count uint64, since time.Time) *Lease {
	l := &Lease{keeper: k, reply: reply, seq: seq, count: count, since: since}
	k.mu.Lock()
	k.nextID++
	l.id = k.nextID
	k.leases[l.id] = l
	stale := k.bySeq[seq]
	if stale != nil && stale.count > count { // messages of two pulls may overtake each other
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

// forget stops extending a claim.
func (k *keeper) forget(l *Lease) {
	k.mu.Lock()
	delete(k.leases, l.id)
	if k.bySeq[l.seq] == l {
		delete(k.bySeq, l.seq)
	}
	k.mu.Unlock()
}

// all returns all claims in the order in which they were made.
func (k *keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*Lease, 0, len(k.leases))
	for _, l := range k.leases {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *Lease) int { return cmp.Compare(a.id, b.id) }) // simulated schedules must repeat exactly
	return out
}

// endAll ends every claim. The connection was lost, and the server may deliver
// the messages to other workers.
func (k *keeper) endAll() {
	for _, l := range k.all() {
		l.endNow()
	}
}

// extend asks the server for more time for every claim that has used a third of
// its term. It sends no request for a claim that has ended, because the request
// would extend the new owner's claim.
func (k *keeper) extend() {
	now := k.now()
	for _, l := range k.all() {
		l.mu.Lock()
		due := l.validAt(now) && k.age(l.since, now) >= k.term()/3 &&
			k.age(l.requestedAt, now) >= 2*k.period()
		over := l.over
		l.mu.Unlock()
		switch {
		case over:
			k.forget(l)
		case due:
			k.request(l, now)
		}
	}
}

// request asks the server for more time for a claim, unless it has ended.
func (k *keeper) request(l *Lease, now time.Time) {
	l.mu.Lock()
	if !l.validAt(now) {
		l.mu.Unlock()
		return
	}
	l.noteRequest(now)
	answer := fmt.Sprintf("%s.%d.%d", k.inbox, l.id, l.serial)
	l.mu.Unlock()
	_ = k.q.store.Extend(l.reply, answer) // after a failure the claim ends by itself
}

// noteRequest notes that a progress request is sent. It keeps the sending times
// of all unanswered requests. So a broker that answers more slowly than
// requests are sent still extends the claim.
func (l *Lease) noteRequest(now time.Time) {
	if l.sent == nil {
		l.sent = make(map[uint64]time.Time)
	}
	l.serial++
	l.sent[l.serial], l.requestedAt = now, now
}

// confirm extends the claim to count from the sending of the progress request
// with this serial, which the server answered. An answer that is read after the
// claim has ended changes nothing: the server may have delivered the message to
// another worker before and extended that claim (R7).
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

// handleAnswer reads from the subject of an answer which lease and which
// request it belongs to.
func (k *keeper) handleAnswer(subject string) {
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
