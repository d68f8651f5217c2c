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
func (p *Pool) visit(d *queue.Delivery) error {
	if p.draining.Load() {
		return p.conclude(d, order.Report{End: order.EndHandBack, Reason: "worker stopping", History: d.History}, false)
	}
	if d.Again && d.Work != queue.WorkSuspect {
		if err := p.Queue.NoteBegun(p.settle, d); err != nil {
			return err
		}
	}
	ctx, cancel := d.Lease().Bound(p.work, submit.ErrLeaseLost)
	defer cancel()
	if err := p.afterReconnect(ctx, d); err != nil {
		return p.conclude(d, order.Report{End: endOf(ctx), Reason: "given back before anything was sent", History: d.History}, false)
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
	report := p.Submitter.Submit(ctx, v)
	p.pace.note(report.Trail)
	return p.conclude(d, report, proven)
}

// afterReconnect waits one attempt timeout after a reconnect before a
// redelivered order is posted: its former owner's attempt may still be on its
// way (R7).
func (p *Pool) afterReconnect(ctx context.Context, d *queue.Delivery) error {
	at := p.Queue.ReconnectedAt()
	if d.Delivered == 1 && !d.Again || at.IsZero() {
		return nil
	}
	wait := time.Until(at.Add(p.RequestTimeout))
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
// carry it out. A repeated call (after a storage fault) writes the same again.
func (p *Pool) conclude(d *queue.Delivery, r order.Report, firstProven bool) error {
	s := order.Decide(r, order.Facts{Policy: p.Policy, FirstProven: firstProven && !r.History.Unsure, Allowed: d.Allowed})
	var entry queue.Entry
	var err error
	p.untilStored(d, func() error {
		entry, err = p.Queue.Settle(p.settle, d, r, s)
		return err
	})
	if err != nil {
		return nil // logged
	}
	p.tell(d, r, s, entry.Record)
	return nil
}

// tell logs and counts what became of the order: one line each.
func (p *Pool) tell(d *queue.Delivery, r order.Report, s order.Settlement, rec *order.Record) {
	if rec.Outcome() == order.OutcomeNone {
		p.Observer.Returned(s.Action)
		p.Log.Debug().Str("order_no", d.OrderNo()).Stringer("action", s.Action).Stringer("end", r.End).
			Stringer("verdict", r.Verdict).Int("attempts", rec.Attempts).Dur("delay", r.Delay).
			Str("reason", r.Reason).Str("error", r.Error).Msg("order not settled yet")
		return
	}
	p.Observer.Settled(rec)
	p.Log.Info().Str("order_no", rec.OrderNo).Str("outcome", rec.Word).Stringer("verdict", rec.Verdict).
		Int("status", rec.Status).Int("attempts", rec.Attempts).Bool("unsure", rec.Unsure).
		Dur("took", rec.SettledAt.Sub(rec.EnqueuedAt)).Str("batch", rec.Batch).Str("reason", rec.Reason).
		Str("error", rec.Error).Uint64("delivered", d.Delivered).Msg("order settled")
}
