package order

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseLost means that another worker may hold the claim on the order (R7). It is
// the cause of the attempt's context and the error of the fence.
var ErrLeaseLost = errors.New("the claim on this order may have passed to another worker")

// Submission is the work on one delivery of an order: one or more attempts. The
// settle protocol hands it to the submitter, which returns a [Report].
type Submission struct {
	Order *Order
	// History covers all earlier submissions.
	History History
	// Deadline is the time after which the order is not sent; zero = none.
	Deadline time.Time
	// Traceparent is the order's W3C trace header.
	Traceparent string
	// Allowed says that a person allowed another attempt although the order is in
	// doubt and the policy is Park.
	Allowed bool
	// Fence is called directly before each attempt. An error ends the submission
	// before a request is sent: with EndLeaseLost for ErrLeaseLost, otherwise with
	// EndHandBack. Fence may be nil.
	Fence func(ctx context.Context) error
	// Cancelled is called with the history by now, before the wait at the gate and directly
	// before each attempt. It reports whether a person withdrew the order, and returns a
	// channel that is closed when the answer may be another one. A withdrawn order ends
	// with EndCancelled. Cancelled may be nil.
	Cancelled func(h History) (bool, <-chan struct{})
	// WriteAhead is set under the policy Park. It is called before each attempt with
	// the history that includes this attempt, and returns once the broker has confirmed
	// what tells a later delivery about it. An error ends the submission before a request is sent, and the
	// attempt is not counted: with EndLeaseLost for ErrLeaseLost, otherwise with
	// EndHandBack.
	WriteAhead func(ctx context.Context, h History) error
}
