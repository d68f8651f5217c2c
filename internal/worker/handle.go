package worker

import (
	"context"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// handle works off one delivery, whose pull began at pulled. It owns a slot and
// releases it.
func (p *Pool) handle(d *settle.Delivery, pulled time.Time) {
	p.inHand.Add(1)
	defer p.slots.release()
	defer p.inHand.Add(-1)
	if d.Delivered > 1 {
		p.Observer.Redelivered(d.Unexplained == 0)
	}
	o := p.observe(d, pulled)
	defer o.end()
	p.handler.Handle(p.work, p.settle, d, o)
}

// newHandler returns the settle protocol's Handler with the submitter.
func (p *Pool) newHandler() *settle.Handler {
	return settle.NewHandler(p.Queue.Worker, settle.HandlerOptions{
		Submit: func(ctx context.Context, s *order.Submission) *order.Report {
			began := time.Now()
			defer func() { p.prefetch.submit.note(time.Since(began)) }()
			return p.Submitter.Submit(ctx, s)
		},
		Asks: p.Submitter.Asks, Policy: p.Policy, Draining: p.draining.Load, Refused: p.storage.refused, Stored: p.storage.left,
	})
}

// Settled implements settle.Observer.
func (o *deliveryObserver) Settled(rec *order.Record) {
	o.pool.prefetch.settling.note(time.Since(o.settling))
	o.pool.Observer.Settled(rec, o.sampled)
	o.pool.lines.settled(rec, o.delivered, o.traceID())
}

// Recognised implements settle.Observer.
func (o *deliveryObserver) Recognised(rec *order.Record) { o.pool.Observer.Settled(rec, o.sampled) }

// Returned implements settle.Observer.
func (o *deliveryObserver) Returned(r *order.Report, s order.Settlement, rec *order.Record) {
	o.pool.Observer.Returned(s.Action)
	o.pool.Log.Debug().Str("order_no", rec.OrderNo).Stringer("action", s.Action).Stringer("end", r.End).
		Stringer("verdict", r.Verdict).Int("attempts", rec.Attempts).Dur("delay_ms", r.Delay).
		Str("reason", r.Reason).Str("error", r.Error).Msg("order not settled yet")
}
