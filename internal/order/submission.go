package order

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseLost is the cause of an attempt's context, and the error of a fence,
// once the claim on the order may have passed to another worker (R7).
var ErrLeaseLost = errors.New("the claim on this order may have passed to another worker")

// Submission is one order's stay in a worker: what the settle protocol hands to
// whoever posts it. The answer is a [Report].
type Submission struct {
	Order *Order
	// History is what is known from before.
	History History
	// EnqueuedAt is passed on to observers; the order's age counts from its
	// first attempt, so that a long queue exhausts nobody.
	EnqueuedAt time.Time
	// Deadline is the time after which the order is not sent; zero = none.
	Deadline time.Time
	// Traceparent is the order's W3C trace header.
	Traceparent string
	// Allowed: a person allowed this intent to be asked again although the
	// order is in doubt, and the policy is to park.
	Allowed bool
	// Fence is asked directly before each attempt. Its error ends the
	// submission with EndLeaseLost; no request leaves. May be nil.
	Fence func() error
	// WriteAhead is set for the policy Park. It is asked before each attempt
	// with the history as it will be, and returns when that is confirmed. Its
	// error ends the submission with EndHandBack, or with EndLeaseLost if it is
	// ErrLeaseLost; no request leaves and no attempt is counted.
	WriteAhead func(ctx context.Context, h History) error
}
