package client

import (
	"time"

	"orderpost/internal/gateway/door"
)

// Order is one submission.
type Order struct {
	// Body is one JSON object of at most 1 MiB. order_no (a string of 1 to 255 bytes) and
	// timeout (an integer) are required. Every other field goes to the API as it is.
	Body []byte
	// ID names the submission. At most 1024 bytes; "" = Submit makes one.
	ID string
	// Deadline is the time after which the order is not sent; zero = none.
	Deadline time.Time
	// NotBefore is the time before which it is not sent, at most a year ahead; zero, or a
	// time that was over less than a minute ago = at once.
	NotBefore time.Time
	// Lane is the lane in which the order waits for its turn, such as "bulk"; "" with a
	// zero NotBefore = it goes before all that waits.
	Lane string
	// Batch and Source say where the order comes from. The outcome repeats them. At most
	// 1024 bytes each.
	Batch, Source string
	// Traceparent is the W3C trace context.
	Traceparent string
}

// Status says how a submission came to be stored.
type Status string

// The statuses of a submission that is stored.
const (
	// Stored: it was stored now.
	Stored Status = "stored"
	// Same: the same submission was stored before, and may have its outcome.
	Same Status = "same"
)

// Receipt names a submission that is stored. Without an ID it names the order: another
// submission with this body has taken the place of this one, and was accepted.
type Receipt struct {
	OrderNo, ID string
	// Status is empty beside an error.
	Status Status
}

// Outcome is what became of one submission, and of no other.
type Outcome struct {
	OrderNo, ID string
	// Outcome is accepted, rejected, exhausted, expired, invalid, poison, cancelled or
	// unknown, as docs/guarantees.md explains them; "" while the submission is pending.
	Outcome string
	// Pending: it has no outcome yet.
	Pending bool
	// Created says whether the order exists at the API by this submission: "yes", "no", or
	// "unknown".
	Created string
	// Reason is a short, stable phrase for grouping. Error is the detail for people.
	Reason, Error string
	// Status and Response are the API's last answer; 0 and "" if there was none.
	Status   int
	Response string
	// Attempts counts the requests for this order_no that may have been sent.
	Attempts int
	// SettledAt is when the outcome was decided.
	SettledAt time.Time
	// Batch and Source are those of the submission.
	Batch, Source string
	// Position is the place in the feed: Outcomes goes on after it.
	Position uint64
}

func receiptOf(r door.Receipt) Receipt {
	return Receipt{OrderNo: r.OrderNo, ID: r.ID, Status: Status(r.Status.String())}
}

func outcomeOf(o door.Outcome) Outcome {
	out := Outcome{OrderNo: o.OrderNo, ID: o.ID, Outcome: o.Outcome.String(), Pending: o.Pending, Created: o.Created,
		Reason: o.Reason, Batch: o.Batch, Source: o.Source, Position: o.Position}
	if r := o.Record; r != nil && r.IntentID == o.ID {
		out.Error, out.Status, out.Response, out.Attempts, out.SettledAt = r.Error, r.Status, r.Response, r.Attempts, r.SettledAt
	}
	return out
}
