package service

import (
	"slices"
	"time"

	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// holdBlock is the metrics label of every hold. A hold's name contains its reason, and
// free text must not become a label.
const holdBlock = "hold"

// observer counts the events of the submitter and the pool, and tells Env of some. It implements
// submit.Observer and worker.Observer.
type observer struct {
	*ops.Metrics
	rate requestRate
	next Watcher // nil = none
}

// Attempted implements submit.Observer.
func (o *observer) Attempted(a submit.AttemptEvent) {
	o.rate.count(time.Now(), a.Duration)
	o.Metrics.Attempted(ops.Attempt{Verdict: a.Verdict, Duration: a.Duration, Waited: a.GateWait, RateWaited: a.RateWait, Bytes: a.RequestBytes, TraceID: a.TraceID})
	if o.next != nil {
		o.next.Attempted(a)
	}
}

// GateChanged implements submit.Observer.
func (o *observer) GateChanged(s gate.State) {
	names := make([]string, len(s.Blocks))
	for i, b := range s.Blocks {
		names[i] = blockLabel(b.Name)
	}
	o.Metrics.GateChanged(names)
	if o.next != nil {
		o.next.GateChanged(s)
	}
}

// Settled implements worker.Observer.
func (o *observer) Settled(rec *order.Record, traceID string) {
	if outcome := rec.Outcome(); outcome != order.OutcomeNone {
		o.Metrics.Settled(outcome)
		if outcome.NeedsLetter() {
			o.Failed(rec.Status, rec.Said)
		}
	}
	// The record of an intent that repeats a settled order, or is withheld, has the
	// settling time of that order, which is before this intent was enqueued. Such an
	// intent has no duration.
	if took := rec.SettledAt.Sub(rec.EnqueuedAt); took >= 0 && !rec.EnqueuedAt.IsZero() {
		o.Took(took, traceID)
		if rec.Reason == order.EndPoison.String() { // its outcome is unknown: the worker may have crashed after an attempt
			o.Poisoned()
		}
	}
	if o.next != nil {
		o.next.Settled(rec, traceID)
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
