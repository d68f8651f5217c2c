package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/submit"
)

// visit takes one order to the API under its lease.
func (p *Pool) visit(d *queue.Delivery, j *journey) {
	if p.draining.Load() {
		p.conclude(d, j, order.Report{End: order.EndHandBack, Reason: "worker stopping", History: d.History}, false)
		return
	}
	if d.Work != queue.WorkSuspect && (d.Again || p.Policy == order.Resubmit && d.MustNoteBegin()) {
		if p.untilStored(d, func() error { return p.Queue.NoteBegun(p.settle, d) }) != nil {
			return
		}
	}
	ctx, cancel := d.Lease().Bound(j.within(p.work), submit.ErrLeaseLost)
	defer cancel()
	if err := p.afterReconnect(ctx, d); err != nil {
		p.conclude(d, j, order.Report{End: endOf(ctx), Reason: "given back before anything was sent", History: d.History}, false)
		return
	}
	proven := false
	v := submit.Visit{
		Order: d.Order, History: d.History, EnqueuedAt: d.StoredAt, Deadline: d.Intent.Deadline,
		Traceparent: d.Intent.Traceparent, Allowed: d.Allowed, Fence: d.Lease().Fence,
	}
	if p.Policy == order.Park {
		v.WriteAhead = func(ctx context.Context, h order.History) error {
			first, err := p.Queue.NoteAttempt(ctx, d, h)
			proven = proven || first
			if errors.Is(err, queue.ErrLeaseLost) {
				return fmt.Errorf("%w: %w", submit.ErrLeaseLost, err)
			}
			return err
		}
	}
	began := time.Now()
	report := p.Submitter.Submit(ctx, v)
	p.tempo.note(time.Since(began))
	p.conclude(d, j, report, proven)
}

// afterReconnect waits after a reconnect before a redelivered order is posted:
// its former owner may still believe in its claim, and its attempt may still be
// on its way (R7).
func (p *Pool) afterReconnect(ctx context.Context, d *queue.Delivery) error {
	until := p.Queue.RestlessUntil(p.RequestTimeout)
	if d.Delivered == 1 && !d.Again || until.IsZero() {
		return nil
	}
	wait := time.Until(until)
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

func endOf(ctx context.Context) order.End {
	if errors.Is(context.Cause(ctx), submit.ErrLeaseLost) {
		return order.EndLeaseLost
	}
	return order.EndHandBack
}

// conclude asks order.Decide what becomes of the order, and has the queue
// carry it out. After a storage fault the same is written again.
func (p *Pool) conclude(d *queue.Delivery, j *journey, r order.Report, firstProven bool) {
	s := order.Decide(r, order.Facts{Policy: p.Policy, FirstProven: firstProven && !r.History.Unsure, Allowed: d.Allowed})
	var entry queue.Entry
	settled := j.settling(s)
	err := p.untilStored(d, func() (err error) {
		entry, err = p.Queue.Settle(p.settle, d, r, s)
		return err
	})
	settled(entry.Record, err)
	if err == nil {
		p.tell(d, j, r, s, entry.Record)
	}
}

// tell logs and counts what became of the order.
func (p *Pool) tell(d *queue.Delivery, j *journey, r order.Report, s order.Settlement, rec *order.Record) {
	if rec.Outcome() == order.OutcomeNone {
		p.Observer.Returned(s.Action)
		p.Log.Debug().Str("order_no", d.OrderNo()).Stringer("action", s.Action).Stringer("end", r.End).
			Stringer("verdict", r.Verdict).Int("attempts", rec.Attempts).Dur("delay_ms", r.Delay).
			Str("reason", r.Reason).Str("error", r.Error).Msg("order not settled yet")
		return
	}
	p.Observer.Settled(rec)
	p.lines.settled(rec, d.Delivered, j.id())
}
