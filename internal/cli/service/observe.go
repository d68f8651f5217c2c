package service

import (
	"slices"
	"time"

	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
	"orderpost/internal/worker"
)

// holdBlock is the metrics label of every hold. A hold's name contains its reason, and
// free text must not become a label.
const holdBlock = "hold"

// observer counts the events of the submitter and the pool and passes them on to the
// observers of Env. It implements submit.Observer and Observer.
type observer struct {
	metrics  *ops.Metrics
	attempts submit.Observer // may be nil
	orders   worker.Observer // may be nil
}

// Attempted implements submit.Observer.
func (o *observer) Attempted(a submit.AttemptEvent) {
	o.metrics.Attempted(ops.Attempt{Verdict: a.Verdict, Duration: a.Duration, Waited: a.GateWait, RateWaited: a.RateWait, Bytes: a.RequestBytes, TraceID: a.TraceID})
	if o.attempts != nil {
		o.attempts.Attempted(a)
	}
}

// GateChanged implements submit.Observer.
func (o *observer) GateChanged(s gate.State) {
	names := make([]string, len(s.Blocks))
	for i, b := range s.Blocks {
		names[i] = blockLabel(b.Name)
	}
	o.metrics.GateChanged(names)
	if o.attempts != nil {
		o.attempts.GateChanged(s)
	}
}

// Retrying implements submit.Observer.
func (o *observer) Retrying(wait time.Duration, queued bool) {
	o.metrics.Retrying(wait, queued)
	if o.attempts != nil {
		o.attempts.Retrying(wait, queued)
	}
}

// LookedUp implements submit.Observer.
func (o *observer) LookedUp(found order.Found) {
	o.metrics.LookedUp(found)
	if o.attempts != nil {
		o.attempts.LookedUp(found)
	}
}

// Settled implements Observer.
func (o *observer) Settled(rec *order.Record, traceID string) {
	if outcome := rec.Outcome(); outcome != order.OutcomeNone {
		o.metrics.Settled(outcome)
		if outcome.NeedsLetter() {
			o.metrics.Failed(rec.Status, rec.Said)
		}
	}
	// The record of an intent that repeats a settled order, or is withheld, has the
	// settling time of that order, which is before this intent was enqueued. Such an
	// intent has no duration.
	if took := rec.SettledAt.Sub(rec.EnqueuedAt); took >= 0 && !rec.EnqueuedAt.IsZero() {
		o.metrics.Took(took, traceID)
		if rec.Reason == order.EndPoison.String() { // its outcome is unknown: the worker may have crashed after an attempt
			o.metrics.Poisoned()
		}
	}
	if o.orders != nil {
		o.orders.Settled(rec, traceID)
	}
}

// Returned implements Observer.
func (o *observer) Returned(action order.Action) {
	o.metrics.Returned(action)
	if o.orders != nil {
		o.orders.Returned(action)
	}
}

// Redelivered implements Observer.
func (o *observer) Redelivered(explained bool) {
	o.metrics.Redelivered(explained)
	if o.orders != nil {
		o.orders.Redelivered(explained)
	}
}

// blockLabel returns a block's metrics label. Every block that is not one of the
// gate's own is a hold.
func blockLabel(name string) string {
	if slices.Contains(gate.BlockNames(), name) {
		return name
	}
	return holdBlock
}
