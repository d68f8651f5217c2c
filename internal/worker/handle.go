package worker

import (
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
	p.untilStored(d, func() error { return p.do(d, j) })
}

// do is the table of what each kind of work needs.
func (p *Pool) do(d *queue.Delivery, j *journey) error {
	switch d.Work {
	case queue.WorkSettled:
		return p.Queue.Complete(p.settle, d)
	case queue.WorkRepeat:
		return p.observe(p.Queue.Repeat(p.settle, d))
	case queue.WorkConflict, queue.WorkWithheld:
		p.Log.Warn().Str("order_no", d.OrderNo()).Stringer("work", d.Work).Msg("intent not submitted; see its dead letter")
		return p.observe(p.Queue.Refuse(p.settle, d))
	case queue.WorkNotYet:
		return p.Queue.HandBack(p.settle, d, time.Until(d.Last.Record.NotBefore))
	case queue.WorkClaimed:
		return p.Queue.HandBack(p.settle, d, time.Until(d.Last.Record.LastAttemptAt.Add(p.RequestTimeout))+time.Second)
	case queue.WorkInvalid:
		return p.conclude(d, j, order.Report{End: order.EndInvalid, Reason: d.InvalidReason(), Error: d.Invalid.Error(), History: d.History}, false)
	case queue.WorkSuspect:
		return p.suspect(d, j)
	case queue.WorkSubmit:
		return p.visit(d, j)
	default:
		return p.Queue.GiveUp(p.settle, d)
	}
}

func (p *Pool) observe(entry queue.Entry, err error) error {
	if err == nil {
		p.Observer.Settled(entry.Record)
	}
	return err
}

// suspect handles an intent whose earlier deliveries nothing explains: alone,
// and with a note that is confirmed first, so that a worker that goes down
// with it leaves a trace.
func (p *Pool) suspect(d *queue.Delivery, j *journey) error {
	if d.History.Suspects >= poisonAfter {
		return p.conclude(d, j, poison(d.History), false)
	}
	p.Log.Warn().Str("order_no", d.OrderNo()).Int("unexplained", d.Unexplained).Msg("handling an order alone: nothing explains its earlier deliveries")
	if err := p.Queue.NoteSuspect(p.settle, d); err != nil {
		return err
	}
	if d.Invalid != nil {
		return p.conclude(d, j, order.Report{End: order.EndInvalid, Reason: d.InvalidReason(), Error: d.Invalid.Error(), History: d.History}, false)
	}
	return p.visit(d, j)
}

// poison is the end of an intent that took its workers down. Each delivery that
// did not come to its end may have sent a request, and counts as an attempt.
func poison(h order.History) order.Report {
	lost := h.Lost + h.Suspects
	h.Attempts += lost
	return order.Report{End: order.EndPoison, Reason: "poison", History: h,
		Error: fmt.Sprintf("handled alone %d times, and its worker went down each time; %d deliveries came to no end, and each may have sent it", h.Suspects, lost)}
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
	p.untilStored(d, func() error { return p.Queue.NoteSuspect(p.settle, d) })
}

// untilStored repeats what failed because the broker cannot store results.
// Meanwhile the gate is closed, so that at most what is in flight is ever
// posted into a full disk (R10); the repetition is the test write.
func (p *Pool) untilStored(d *queue.Delivery, do func() error) {
	waits := false
	defer func() {
		if waits {
			p.storage.left()
		}
	}()
	for {
		err := do()
		switch {
		case err == nil:
			return
		case !errors.Is(err, queue.ErrStorage):
			p.Log.Warn().Err(err).Str("order_no", d.OrderNo()).Msg("order left to its next delivery")
			return
		}
		if !waits {
			waits = true
			p.storage.refused(err)
		}
		select {
		case <-p.settle.Done():
			return
		case <-time.After(storageRetry):
		}
	}
}
