package settle

import (
	"time"

	"orderpost/internal/order"
)

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

	cancelledBy string // who withdrew the intent; "" = nobody, as far as this delivery has looked

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
