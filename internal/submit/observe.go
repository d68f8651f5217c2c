package submit

import (
	"context"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// Observer is told what happens; ops turns it into metrics. Its
// methods are called on the path of orders and must be quick. It must not call
// back into the Submitter.
type Observer interface {
	// Attempted is called after each POST of an order.
	Attempted(a AttemptEvent)
	// GateChanged is called after each change of the gate, in order.
	GateChanged(s gate.State)
	// Retrying is called when an order is to be tried again after wait: in the
	// worker's hands, or (queued) back in the queue.
	Retrying(wait time.Duration, queued bool)
}

// Tracer is asked directly before each attempt is sent; ctx is the visit's. It
// gives the W3C trace header of the attempt's own span ("" = none), and what is
// told of the attempt when it is over. nil: nobody follows attempts.
type Tracer func(ctx context.Context) (traceparent string, ended func(AttemptEvent))

// AttemptEvent is one POST of an order.
type AttemptEvent struct {
	// OrderNo and Traceparent are for traces; they must not become labels.
	OrderNo, Traceparent string
	Verdict              order.Verdict
	Status               int       // 0 = no answer
	Phase                Phase     // how far the request came
	Reason               string    // as in the record; by rule it is the operator's text
	Attempt              int       // of the order, over all visits
	EnqueuedAt           time.Time // as in order.Submission
	Started              time.Time
	Duration             time.Duration // from sending to the end of the answer
	RequestBytes         int
	ResponseBytes        int
	Reused               bool          // on a connection that was used before
	GateWait             time.Duration // waited at the gate before this attempt, RateWait included
	RateWait             time.Duration // waited for the rate limit alone; 0 where it did not make it wait
}

type noObserver struct{}

func (noObserver) Attempted(AttemptEvent) {}
func (noObserver) GateChanged(gate.State) {}

func (noObserver) Retrying(time.Duration, bool) {}
