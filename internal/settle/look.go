package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
)

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
