package worker

import (
	"slices"
	"time"

	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// holdBlock stands for every hold in metrics: a hold's own name carries its
// reason, and free text is no label.
const holdBlock = "hold"

// observer counts what the submitter and the pool report, and passes it on to
// the observers of Env. It implements submit.Observer and Observer.
type observer struct {
	metrics  *ops.Metrics
	attempts submit.Observer // may be nil
	orders   Observer        // may be nil
}

// Attempted implements submit.Observer.
func (o *observer) Attempted(a submit.AttemptEvent) {
	o.metrics.Attempted(ops.Attempt{Verdict: a.Verdict, Duration: a.Duration, Waited: a.GateWait, RateWaited: a.RateWait, Bytes: a.RequestBytes})
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

// Settled implements Observer.
func (o *observer) Settled(rec *order.Record) {
	if outcome := rec.Outcome(); outcome != order.OutcomeNone {
		o.metrics.Settled(outcome)
	}
	// An intent that repeats a settled order, or is withheld, carries that order's
	// settling, which was before its own enqueueing: it took no time that means
	// anything, and nothing happened to it.
	if took := rec.SettledAt.Sub(rec.EnqueuedAt); took >= 0 && !rec.EnqueuedAt.IsZero() {
		o.metrics.Took(took)
		if rec.Reason == order.EndPoison.String() { // the outcome is unknown: an attempt may have left before the worker went down
			o.metrics.Poisoned()
		}
	}
	if o.orders != nil {
		o.orders.Settled(rec)
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

// blockLabel is a block's name for metrics. Whatever is none of the gate's own
// blocks is a hold.
func blockLabel(name string) string {
	if slices.Contains(gate.BlockNames(), name) {
		return name
	}
	return holdBlock
}
