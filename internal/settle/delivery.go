package settle

import (
	"time"

	"orderpost/internal/order"
)

// Delivery is one intent in a worker's hands: what arrived, what is known
// about its order_no, and the claim on it.
type Delivery struct {
	Intent Intent
	// Order is nil where the intent can never be sent; Invalid says why.
	Order   *order.Order
	Invalid error
	// Last is the last word on the order_no as of the check.
	Last Entry
	// Work says what is to be done with the delivery.
	Work Work
	// History is what the attempts of this order_no so far were, doubt
	// included; for an attempt to go on from.
	History order.History
	// Allowed: a person allowed this intent although the order's earlier
	// outcome is unknown, and no attempt since then is in doubt (R6).
	Allowed bool
	// Unexplained counts the earlier deliveries that no note explains.
	Unexplained int
	// Again: the broker calls it a first delivery, but it was delivered before;
	// the count was lost when the broker was killed.
	Again bool

	// Seq and StoredAt are the intent's place in the stream.
	Seq      uint64
	StoredAt time.Time
	// Delivered is the broker's count of deliveries, this one included; set
	// right by Check where the broker began again below the last note's.
	Delivered uint64
	counted   uint64 // as the broker said it
	life      string // of the broker that counted

	msg        *Message
	answer     Answer
	token      string
	lease      *Lease
	unreadable error // why the last word on the order_no cannot be read
}

// Answer takes back a delivered message: done, or to be delivered again. It is
// sent without waiting for a confirmation.
type Answer interface {
	Ack() error
	Nak() error
	NakWithDelay(delay time.Duration) error
}

// Lease is the claim on the message.
func (d *Delivery) Lease() *Lease { return d.lease }

// MustNoteBegin: this delivery must be noted before anything of it is posted
// (NoteBegun), unless each attempt is. A broker that was killed may have
// forgotten it, and would count the next one as the one that an earlier note
// explains.
func (d *Delivery) MustNoteBegin() bool { return d.Again || d.Delivered > 1 }

// Release ends the extending of the claim. Call it when the handling is over.
func (d *Delivery) Release() { d.lease.release() }

// OrderNo is the order's number, or what its subject says where the body holds
// none.
func (d *Delivery) OrderNo() string { return d.Intent.OrderNo }

// Work says what is to be done with a delivery that has been checked.
type Work uint8

// The kinds of work.
const (
	WorkNone Work = iota
	// WorkSubmit: take the order to the API.
	WorkSubmit
	// WorkInvalid: it can never be sent; settle it as invalid.
	WorkInvalid
	// WorkSettled: this intent has its outcome; complete what is missing.
	WorkSettled
	// WorkRepeat: the order was accepted before, and this intent asks for the
	// very same body: it is done.
	WorkRepeat
	// WorkConflict: the order was accepted before with another body.
	WorkConflict
	// WorkWithheld: an earlier intent of this order_no ended as unknown, and
	// nobody allowed another one.
	WorkWithheld
	// WorkNotYet: its delay is not over; it was delivered early.
	WorkNotYet
	// WorkClaimed: another worker's attempt note is open.
	WorkClaimed
	// WorkSuspect: handle it alone, after a suspect note (R8).
	WorkSuspect
)

var workNames = [...]string{"", "submit", "invalid", "settled", "repeat", "conflict", "withheld", "not-yet", "claimed", "suspect"}

// String gives the word used in logs.
func (w Work) String() string { return workNames[w] }
