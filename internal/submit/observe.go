package submit

import (
	"context"
	"net/url"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// Observer receives events, for metrics. Orders wait for its methods, so they must be
// quick. They must not call the Submitter.
type Observer interface {
	// Attempted is called after each POST of an order.
	Attempted(a AttemptEvent)
	// GateChanged is called after each change of the gate, in order.
	GateChanged(s gate.State)
	// Retrying is called when an order waits for its next attempt: in the worker, or
	// in the queue if queued is set.
	Retrying(wait time.Duration, queued bool)
}

// Tracer is called directly before each attempt with the submission's context, the
// address, and the number of the attempt over all submissions.
type Tracer func(ctx context.Context, to *url.URL, attempt int) Span

// Span is the span of an attempt. The zero Span is none.
type Span struct {
	Traceparent string             // the W3C trace header
	TraceID     string             // "" = the trace is not sampled
	Ended       func(AttemptEvent) // called when the attempt is over
}

// AttemptEvent is one POST of an order.
type AttemptEvent struct {
	OrderNo      string // must not become a metric label
	TraceID      string // "" = not traced or not sampled
	Verdict      order.Verdict
	Status       int    // 0 = no answer
	Reason       string // as in the record; a rule's reason is the operator's text
	Attempt      int    // of the order, over all submissions
	Started      time.Time
	Duration     time.Duration // from the start of the request to the end of the answer
	RequestBytes int
	GateWait     time.Duration // time at the gate before this attempt, RateWait included
	RateWait     time.Duration // the part of GateWait for the rate limit; 0 = none
}

type noObserver struct{}

func (noObserver) Attempted(AttemptEvent) {}
func (noObserver) GateChanged(gate.State) {}

func (noObserver) Retrying(time.Duration, bool) {}
