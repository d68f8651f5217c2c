package settle

import (
	"cmp"
	"context"
	"errors"
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
// One of the gaps that R7 admits: a process that is frozen between Valid and the
// socket write sends its request when it wakes.
type Lease struct {
	claims *Claims
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
	return l.validAt(l.claims.now())
}

// validAt is Valid at the given time, and ends a claim whose term has passed.
// The caller holds l.mu.
func (l *Lease) validAt(now time.Time) bool {
	if !l.over && age(l.since, now) >= l.claims.Term() {
		l.end()
	}
	return !l.over
}

// age returns the longer of the two clocks' differences. A suspended machine
// stops the monotonic clock, and a correction makes the wall clock jump.
func age(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// end ends the claim and the context of its attempts. The caller holds l.mu.
func (l *Lease) end() {
	if !l.over {
		l.over = true
		l.claims.lost.Add(1)
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
// [Worker.Fence].
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
func (l *Lease) release() { l.claims.forget(l) }

// Claims are the claims of all deliveries in flight.
type Claims struct {
	ledger  *Ledger
	now     func() time.Time
	ackWait atomic.Int64 // the consumer's AckWait, a time.Duration

	mu     sync.Mutex
	leases map[uint64]*Lease
	bySeq  map[uint64]*Lease // the latest claim on each message, by sequence
	nextID uint64

	inbox string        // subject prefix of the broker's answers
	lost  atomic.Uint64 // claims that ended before their release
}

func newClaims(ledger *Ledger) *Claims {
	return &Claims{ledger: ledger, now: ledger.time.Now, leases: make(map[uint64]*Lease), bySeq: make(map[uint64]*Lease)}
}

// Start sets how long the broker waits for a silent worker, and the subject prefix of its
// answers to progress requests. ackWait is the consumer's own AckWait, which may differ
// from this program's setting.
func (c *Claims) Start(ackWait time.Duration, answers string) {
	c.ackWait.Store(int64(ackWait))
	c.inbox = answers
}

// Align takes the AckWait that the consumer has now. If claims relied on another one, it
// ends them all, because the broker may have delivered their messages again (R7). It
// returns the former AckWait.
func (c *Claims) Align(ackWait time.Duration) (former time.Duration) {
	former = time.Duration(c.ackWait.Swap(int64(ackWait)))
	if former != ackWait {
		c.endAll()
	}
	return former
}

// Term returns how long a claim lasts without an answer from the broker.
func (c *Claims) Term() time.Duration { a := c.AckWait(); return a - a/10 }

// AckWait returns how long the broker waits for a silent worker.
func (c *Claims) AckWait() time.Duration { return time.Duration(c.ackWait.Load()) }

// Lost returns how many claims ended before their orders were finished.
func (c *Claims) Lost() uint64 { return c.lost.Load() }

// Every returns the time between two calls of Extend. It also bounds how late the end of a
// claim is noticed. The margin of a claim covers that.
func (c *Claims) Every() time.Duration { return c.AckWait() / 20 }

// claim returns a lease that runs since the given time. If this worker already
// holds a claim on the message, the broker took the message away: a former
// owner's late NAK made the broker deliver it again. Only the later delivery
// owns the message then, so the earlier claim ends at once (R7).
func (c *Claims) claim(reply string, seq, count uint64, since time.Time) *Lease {
	l := &Lease{claims: c, reply: reply, seq: seq, count: count, since: since}
	c.mu.Lock()
	c.nextID++
	l.id = c.nextID
	c.leases[l.id] = l
	stale := c.bySeq[seq]
	if stale != nil && stale.count > count { // messages of two pulls may overtake each other
		stale = l
	} else {
		c.bySeq[seq] = l
	}
	c.mu.Unlock()
	if stale != nil {
		stale.endNow()
	}
	return l
}

// forget stops extending a claim.
func (c *Claims) forget(l *Lease) {
	c.mu.Lock()
	delete(c.leases, l.id)
	if c.bySeq[l.seq] == l {
		delete(c.bySeq, l.seq)
	}
	c.mu.Unlock()
}

// holds reports whether this process has a claim on a message, by its sequence.
func (c *Claims) holds(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bySeq[seq] != nil
}

// all returns all claims in the order in which they were made.
func (c *Claims) all() []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*Lease, 0, len(c.leases))
	for _, l := range c.leases {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *Lease) int { return cmp.Compare(a.id, b.id) }) // simulated schedules must repeat exactly
	return out
}

// endAll ends every claim. The connection was lost, and the server may deliver
// the messages to other workers.
func (c *Claims) endAll() {
	for _, l := range c.all() {
		l.endNow()
	}
}

// Extend asks the server for more time for every claim that has used a third of
// its term. It sends no request for a claim that has ended, because the request
// would extend the new owner's claim.
func (c *Claims) Extend() {
	now := c.now()
	for _, l := range c.all() {
		l.mu.Lock()
		due := l.validAt(now) && age(l.since, now) >= c.Term()/3 &&
			age(l.requestedAt, now) >= 2*c.Every()
		over := l.over
		l.mu.Unlock()
		switch {
		case over:
			c.forget(l)
		case due:
			c.request(l, now)
		}
	}
}

// request asks the server for more time for a claim, unless it has ended.
func (c *Claims) request(l *Lease, now time.Time) {
	l.mu.Lock()
	if !l.validAt(now) {
		l.mu.Unlock()
		return
	}
	l.noteRequest(now)
	answer := fmt.Sprintf("%s.%d.%d", c.inbox, l.id, l.serial)
	l.mu.Unlock()
	_ = c.ledger.store.Extend(l.reply, answer) // after a failure the claim ends by itself
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

// Answered handles the broker's answer to a progress request. Its subject says which lease
// and which request it belongs to.
func (c *Claims) Answered(subject string) {
	idText, serialText, _ := strings.Cut(strings.TrimPrefix(subject, c.inbox+"."), ".")
	id, err1 := strconv.ParseUint(idText, 10, 64)
	serial, err2 := strconv.ParseUint(serialText, 10, 64)
	if err1 != nil || err2 != nil {
		return
	}
	c.mu.Lock()
	l := c.leases[id]
	c.mu.Unlock()
	if l != nil {
		l.confirm(serial, c.now())
	}
}

// lookGood is how long a look at the record of an order vouches for the claim on it. A
// new leader of the workers' consumer delivers nothing again before half a second has
// passed (applyState, nats-server 2.15).
const lookGood = 500 * time.Millisecond

// Fence returns order.ErrLeaseLost (wrapped) if another worker may hold the claim on d.
// Call it directly before each attempt. Another error means that ctx ended first.
//
// The claim alone proves too little. A process that was frozen has not heard yet that its
// connection broke. In a cluster the broker answers every request for more time, also of a
// delivery that it has taken away: a leader of the consumer that was just elected, or that
// is cut off, may know another owner. So Fence looks at the record again if the last look
// is older than lookGood. The other owner writes a note before it posts, and its outcome
// afterwards (R7).
func (wk *Worker) Fence(ctx context.Context, d *Delivery) error {
	for look, good := 1, lookGood; ; look++ {
		if look > looks {
			good = lookSlow
		}
		now := wk.ledger.time.Now()
		if err := d.lease.Fence(); err != nil || age(d.looked, now) <= good {
			return err
		}
		stored, err := wk.ledger.rereadRecord(ctx, d.token)
		switch {
		case !d.lease.Valid():
			return order.ErrLeaseLost
		case err != nil && !errors.Is(err, ErrUnreadable):
			return fmt.Errorf("order %s: %w", d.OrderNo(), err)
		case stored.Seq != d.Last.Seq:
			d.lease.endNow()
			return fmt.Errorf("order %s: its record was written since it was looked at: %w", d.OrderNo(), order.ErrLeaseLost)
		}
		d.looked = now
	}
}

// overtaken reports whether the record names a later delivery of d's intent, which may be posting. d
// has nothing to explain, post or give back (R7). In a cluster the next leader of the consumer gave the
// message away; elsewhere a broker whose clock was set ahead. One that was killed may count from one
// again, and a note tells from which run it is.
//
// A consumer that was made anew counts from one. Then only an open note stops a delivery
// whose count was lost, and the next deliveries wait until they are counted further.
func (wk *Worker) overtaken(d *Delivery) bool {
	last := d.Last.Record
	return last != nil && last.IntentID == d.Intent.ID && d.counted <= last.Delivered && (last.Open() || !d.CountLost) &&
		(wk.ledger.store.Replicated() || strings.HasPrefix(last.DeliveryID, runOf(d.serverID)))
}

// looks is how often Fence looks before a slow answer is enough. A process that was frozen while it
// looked got an old answer. A broker that always answers slowly must not stop the order, but one whose
// answers take longer than lookSlow, by either clock, does.
const (
	looks    = 3
	lookSlow = 2 * time.Second
)

// vouch asks the broker for more time for each delivery whose intent waited in the
// stream for a third of a claim's term, as soon as it arrives. For others the first
// regular request (Claims.Extend) comes early enough. The leader of the consumer counts
// AckWait from the delivery, but its followers are told the time at which the intent
// was stored (nats-server 2.15, pmsg.ts in the delivered proposal). A request for more
// time tells them the true one. Without it the next leader delivers an intent again at
// once that waited for longer than AckWait, although its owner holds it (R7). A worker
// whose clock is behind the broker's does not know how long the intent waited. One that is
// delivered again has waited, whatever the clocks say.
func (wk *Worker) vouch(group []*Delivery) {
	if !wk.ledger.store.Replicated() {
		return
	}
	now := wk.ledger.time.Now()
	for _, d := range group {
		if waited := now.Sub(d.EnqueuedAt); d.counted > 1 || waited > wk.claims.Term()/3 || waited < -wk.claims.Every() {
			wk.claims.request(d.lease, now)
		}
	}
}
