package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// poisonAfter is the number of suspect notes from which an intent is poison:
// it was handled alone so often, and took its worker down each time.
const poisonAfter = 3

// storageRetry is the pace of test writes while the broker refuses results.
const storageRetry = time.Second

// handle brings one delivery, which was asked for when it says pulled, to its
// end. It owns a slot.
func (p *Pool) handle(d *queue.Delivery, pulled time.Time) {
	p.inHand.Add(1)
	defer p.slots.release()
	defer p.inHand.Add(-1)
	defer d.Release()
	if d.Delivered > 1 {
		p.Observer.Redelivered(d.Unexplained == 0)
	}
	j := p.follow(d, pulled)
	defer j.end()
	if d.Work == queue.WorkSuspect {
		p.alone.Lock()
		defer p.alone.Unlock()
	} else {
		p.alone.RLock()
		defer p.alone.RUnlock()
	}
	defer p.survive(d, j)
	p.do(d, j)
}

// do is the table of what each kind of work needs. It runs once a delivery: only
// the single writes are repeated, by untilStored. What may reach the API (do,
// suspect, visit, conclude) returns no error, and so cannot be passed there.
func (p *Pool) do(d *queue.Delivery, j *journey) {
	switch d.Work {
	case queue.WorkSettled:
		_ = p.untilStored(d, func() error { return p.Queue.Complete(p.settle, d) })
	case queue.WorkRepeat:
		p.takeOver(d, p.Queue.Repeat)
	case queue.WorkConflict, queue.WorkWithheld:
		p.Log.Warn().Str("order_no", d.OrderNo()).Stringer("work", d.Work).Msg("intent not submitted; see its dead letter")
		p.takeOver(d, p.Queue.Refuse)
	case queue.WorkNotYet:
		p.handBack(d, d.Last.Record.NotBefore)
	case queue.WorkClaimed:
		p.handBack(d, d.Last.Record.LastAttemptAt.Add(p.RequestTimeout+time.Second))
	case queue.WorkInvalid:
		p.conclude(d, j, order.Report{End: order.EndInvalid, Reason: "invalid intent", Error: d.Invalid.Error(), History: d.History}, false)
	case queue.WorkSuspect:
		p.suspect(d, j)
	case queue.WorkSubmit:
		p.visit(d, j)
	default:
		_ = p.untilStored(d, func() error { return p.Queue.GiveUp(p.settle, d) })
	}
}

// takeOver settles an intent that is not submitted, by write.
func (p *Pool) takeOver(d *queue.Delivery, write func(context.Context, *queue.Delivery) (queue.Entry, error)) {
	var entry queue.Entry
	err := p.untilStored(d, func() (err error) {
		entry, err = write(p.settle, d)
		return err
	})
	if err == nil {
		p.Observer.Settled(entry.Record)
	}
}

// handBack gives a delivery back until then.
func (p *Pool) handBack(d *queue.Delivery, until time.Time) {
	_ = p.untilStored(d, func() error { return p.Queue.HandBack(p.settle, d, time.Until(until)) })
}

// suspect handles an intent whose earlier deliveries nothing explains: alone,
// and with a note that is confirmed first, so that a worker that goes down
// with it leaves a trace.
func (p *Pool) suspect(d *queue.Delivery, j *journey) {
	if d.History.Suspects >= poisonAfter {
		p.conclude(d, j, order.Report{End: order.EndPoison, Reason: "poison",
			Error:   fmt.Sprintf("handled alone %d times, and its worker went down each time", d.History.Suspects),
			History: d.History}, false)
		return
	}
	p.Log.Warn().Str("order_no", d.OrderNo()).Int("unexplained", d.Unexplained).Msg("handling an order alone: nothing explains its earlier deliveries")
	if p.untilStored(d, func() error { return p.Queue.NoteSuspect(p.settle, d) }) != nil {
		return
	}
	if d.Invalid != nil {
		p.conclude(d, j, order.Report{End: order.EndInvalid, Reason: "invalid intent", Error: d.Invalid.Error(), History: d.History}, false)
		return
	}
	p.visit(d, j)
}

// survive turns a panic in the handling of one order into a suspect note: the
// worker goes on, the order comes back and is handled alone.
func (p *Pool) survive(d *queue.Delivery, j *journey) {
	what := recover()
	if what == nil {
		return
	}
	j.panicked(what)
	p.Log.Error().Str("order_no", d.OrderNo()).Interface("panic", what).Bytes("stack", debug.Stack()).Msg("panic while handling an order")
	if d.Work == queue.WorkSuspect {
		return // its note stands already
	}
	_ = p.untilStored(d, func() error { return p.Queue.NoteSuspect(p.settle, d) })
}

// untilStored repeats a write that failed because the broker cannot store
// results. Meanwhile the gate is closed: at most what is in flight is ever posted
// into a full disk (R10). The repetition is the test write.
//
// It returns the write's last error, which it has logged. Pass one write, and
// nothing that posts.
func (p *Pool) untilStored(d *queue.Delivery, write func() error) error {
	waits := false
	defer func() {
		if waits {
			p.storage.left()
		}
	}()
	for {
		err := write()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, queue.ErrStorage):
			p.Log.Warn().Err(err).Str("order_no", d.OrderNo()).Msg("order left to its next delivery")
			return err
		}
		if !waits {
			waits = true
			p.storage.refused(err)
		}
		select {
		case <-p.settle.Done():
			return err
		case <-time.After(storageRetry):
		}
	}
}
