package settle

import (
	"context"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

// Worker is the worker's side of the protocol, from the pull to the acknowledgement.
// [Handler] alone sets the order of its steps.
type Worker struct {
	ledger    *Ledger
	claims    *Claims
	acked     *acknowledged
	highWater *highWater
	waits     waits
	absences  absences

	reconnected atomic.Pointer[time.Time] // time of the last reconnect; nil = never
}

// Disconnected ends every claim, because the broker may deliver the messages to
// other workers (R7).
func (wk *Worker) Disconnected() {
	wk.ledger.disconnects.Add(1)
	wk.claims.endAll()
}

// ForgetDeliveries is called when the broker's consumer is missing, or did not end a
// pull as it should: its server may have been killed while the connection, which leads
// to another server, holds. The consumer may then count deliveries from one again. As
// after a disconnect, the next pull reads the high-water marks again (highwater.go).
// Everything that was delivered before then counts as such. Deliveries that are on
// their way were judged by the former marks and lose their claims.
func (wk *Worker) ForgetDeliveries() { wk.ledger.disconnects.Add(1) }

// RereadHighWaterMarks makes the next pull read the high-water marks again, and leaves
// claims alone. It is for a connection that does not tell whether the consumer's server
// was killed since the pull before.
func (wk *Worker) RereadHighWaterMarks() { wk.highWater.reread() }

// Reconnected notes that the connection to the broker is back.
func (wk *Worker) Reconnected() {
	now := wk.ledger.time.Now()
	wk.reconnected.Store(&now)
}

// ReconnectedAt returns when the connection to the broker last came back; zero
// if it was never lost.
func (wk *Worker) ReconnectedAt() time.Time {
	if at := wk.reconnected.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// ReconnectGraceUntil returns the time until which no redelivered order may be
// posted after the last reconnect (R7); zero if there was none. A broker that
// was killed may deliver an order again before its former owner notices. That
// worker is frozen or cut off, and believes in its claim for at most one term.
// Its attempt ends with the claim, but the request may be on its way for one
// attempt timeout.
func (wk *Worker) ReconnectGraceUntil() time.Time {
	at := wk.ReconnectedAt()
	if at.IsZero() {
		return at
	}
	return at.Add(max(wk.ledger.cfg.AttemptTimeout, wk.claims.Term()))
}

// graceLeft returns how long redelivered orders still wait after a reconnect (R7).
func (wk *Worker) graceLeft(now time.Time) time.Duration {
	return wk.ReconnectGraceUntil().Sub(now)
}

// RestoreHighWaterMark writes this worker's delivered high-water mark into a
// bucket that was created again.
func (wk *Worker) RestoreHighWaterMark(ctx context.Context) error { return wk.highWater.restore(ctx) }

// Delivery is one intent that the broker handed to a worker: the message, what
// is known about its order_no, and the claim on it.
type Delivery struct {
	Intent Intent
	// Order is nil if the intent can never be sent. Invalid says why.
	Order   *order.Order
	Invalid error
	// Last is the last word on the order_no as Check read it.
	Last Entry
	// Work says what the delivery needs.
	Work Work
	// History summarises all attempts of this order_no so far, doubt included.
	History order.History
	// Allowed says that a person allowed this intent although the order's
	// earlier outcome is unknown, and that no attempt since then is in doubt
	// (R6).
	Allowed bool
	// Unexplained counts the earlier deliveries that no note explains.
	Unexplained int
	// CountLost says that the broker calls this a first delivery although the
	// intent was delivered before. The broker was killed and its count was
	// reset.
	CountLost bool

	// Position names the copy of the intent in the stream.
	order.Position
	// Delivered is the broker's count of deliveries, this one included. Check
	// raises it if the broker lost its count since the last note.
	Delivered uint64
	counted   uint64        // the broker's count, unchanged
	id        string        // in notes; "" until one is written
	serverID  string        // of the broker that delivered
	marked    bool          // that broker confirmed a high-water mark that covers this delivery
	looked    time.Time     // when Last was asked for or written
	wait      time.Duration // until the intent may be submitted (WorkNotYet, WorkClaimed)

	absentFor   time.Duration // order.Submission.AbsentFor
	cancelledBy string        // who withdrew the intent; "" = nobody, as far as this delivery has looked

	msg        *Message
	answer     Answer
	token      string
	lease      *Lease
	letter     uint64    // the dead letter that this delivery stored; 0 = none yet
	letterAt   time.Time // when that was begun
	unreadable error     // why the record of the order_no cannot be read
}

// Answer acknowledges a delivered message or gives it back (NAK). No method
// waits for a confirmation.
type Answer interface {
	Ack() error
	Nak() error
	NakWithDelay(delay time.Duration) error
}

// Lease returns the claim on the message.
func (d *Delivery) Lease() *Lease { return d.lease }

// Redelivered reports whether a worker was given the intent before.
func (d *Delivery) Redelivered() bool { return d.CountLost || d.Delivered > 1 }

// provenFirst reports whether no attempt for the order_no precedes this delivery, and every
// later one knows of it: from the broker's count, or from the mark if that is lost.
func (d *Delivery) provenFirst() bool {
	return d.Last.Record == nil && !d.Redelivered() && d.marked
}

// waited reports whether the intent came out of the waiting room.
func (d *Delivery) waited() bool { return d.msg.Header.Get(HeaderWaited) != "" }

// looksUp reports whether the intent only asks whether the API has the order (R3).
func (d *Delivery) looksUp() bool { return !d.Intent.LookupUntil.IsZero() }

// Release stops extending the claim. Call it when the handling has ended.
func (d *Delivery) Release() { d.lease.release() }

// OrderNo returns the order number, or what the subject says if the body has
// none.
func (d *Delivery) OrderNo() string { return d.Intent.OrderNo }

// Work says what a delivery needs once it is checked.
type Work uint8

// The kinds of work.
const (
	WorkNone Work = iota
	// WorkSubmit: submit the order to the API.
	WorkSubmit
	// WorkInvalid: the intent can never be sent. Settle it as invalid.
	WorkInvalid
	// WorkSettled: this intent has an outcome. Complete what is missing.
	WorkSettled
	// WorkRepeat: the order was accepted before with the same body. Count the
	// intent.
	WorkRepeat
	// WorkConflict: the order was accepted before with another body.
	WorkConflict
	// WorkWithheld: an earlier intent of this order_no ended as unknown, and no
	// person allowed another one.
	WorkWithheld
	// WorkNotYet: the broker delivered the intent before its delay was over, or again soon
	// after a reconnect, or its producer published it to the queue with a time that has not come.
	WorkNotYet
	// WorkClaimed: another worker's attempt note is open.
	WorkClaimed
	// WorkSuspect: handle it alone, after a suspect note (R8).
	WorkSuspect
	// WorkCancelled: a person withdrew the intent, and nothing has put it in doubt. Settle
	// it as cancelled.
	WorkCancelled
	// WorkPassed: the broker brought back an intent that was settled before. Acknowledge it.
	WorkPassed
	// WorkGone: the intent left the stream after it was delivered. Do nothing.
	WorkGone
)

var workNames = [...]string{"", "submit", "invalid", "settled", "repeat", "conflict", "withheld", "not-yet", "claimed", "suspect", "cancelled", "passed", "gone"}

// String returns the word used in logs.
func (w Work) String() string { return workNames[w] }

// PullStart is the state before a pull request was sent. The claims of the
// messages that answer it run from then (R7).
type PullStart struct {
	link link
	high HighWaterMark // the highest of all workers
	sent time.Time     // directly before the request was sent
}

// BeginPull must be called before messages are requested.
func (wk *Worker) BeginPull(ctx context.Context) (PullStart, error) {
	p := PullStart{link: wk.ledger.link()}
	var err error
	p.high, err = wk.highWater.high(ctx, p.link)
	p.sent = wk.ledger.time.Now()
	return p, err
}

// Arrival is a message as the broker delivered it.
type Arrival struct {
	*Message
	Answer Answer
	// Reply is the subject that acknowledgements go to.
	Reply string
	// Delivered is the broker's count of deliveries, this one included.
	Delivered uint64
}

// Arrived prepares messages that arrived together for the Handler. It makes
// their claims, ends those that were pulled over a lost connection, recognises
// messages that were delivered before, and checks the results. A delivery whose
// check failed has Work WorkNone.
func (wk *Worker) Arrived(ctx context.Context, p PullStart, messages []Arrival) []*Delivery {
	group := make([]*Delivery, len(messages))
	for i, m := range messages {
		group[i] = wk.claim(m, p)
	}
	if wk.ledger.link() != p.link {
		for _, d := range group {
			d.lease.endNow()
		}
	}
	wk.vouch(group)
	wk.checkOrGiveUp(ctx, p, group)
	return group
}

// claim returns the delivery of a message, with its claim.
func (wk *Worker) claim(m Arrival, p PullStart) *Delivery {
	d := &Delivery{msg: m.Message, answer: m.Answer, lease: wk.claims.claim(m.Reply, m.Seq, m.Delivered, p.sent), Position: m.position(p.high.Stream),
		Delivered: m.Delivered, counted: m.Delivered, serverID: p.link.serverID, CountLost: m.Delivered == 1 && (m.Seq <= p.high.Seq || p.high.Waited.Covers(waitedAt(m.Message)))}
	d.Invalid = wk.ledger.readIntent(d)
	if e := wk.ledger.log.Debug(); e.Enabled() { // not later than the first thing that is done about it: histories rely on that
		e.Str("order_no", d.OrderNo()).Str("intent_id", d.Intent.ID).Uint64("sequence", d.Seq).Uint64("delivered", m.Delivered).
			Str("delivery", m.Reply).Int64("at_ns", wk.ledger.time.Now().UnixNano()).Msg("intent delivered")
	}
	return d
}

// checkOrGiveUp repeats the check while the claims last, but for one term at
// most, even if the claims are extended. After that another worker may try.
// Besides reading the results it writes the delivered high-water mark. Nothing
// of the group may be acted on before the broker has confirmed that write.
func (wk *Worker) checkOrGiveUp(ctx context.Context, p PullStart, group []*Delivery) {
	since := wk.ledger.time.Now()
	for {
		err := wk.ledger.time.Each(2, 2, func(i int) error {
			if i == 0 {
				return wk.Check(ctx, group)
			}
			return wk.highWater.advance(ctx, highest(group))
		})
		if err == nil {
			marked := wk.ledger.link() == p.link
			for _, d := range group {
				d.marked = marked
			}
			return
		}
		for _, d := range group {
			d.Work = WorkNone
		}
		if ctx.Err() != nil || !group[0].lease.Valid() || age(since, wk.ledger.time.Now()) > wk.claims.Term() {
			wk.ledger.log.Warn().Err(err).Int("orders", len(group)).Msg("results cannot be read; giving up the orders of this pull; nothing was sent for them, and they are delivered again")
			return
		}
		_ = wk.ledger.time.Sleep(ctx, rereadPause)
	}
}

// highest returns the highest sequence of a group.
func highest(group []*Delivery) (seq uint64) {
	for _, d := range group {
		seq = max(seq, d.Seq)
	}
	return seq
}
