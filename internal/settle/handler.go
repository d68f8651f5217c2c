package settle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"orderpost/internal/order"
)

// PoisonAfter is the number of suspect notes from which an intent is poison:
// it was handled alone so often, and took its worker down each time (R8).
const PoisonAfter = 3

// storageRetry is the pace of test writes while the broker refuses results (R10).
const storageRetry = time.Second

// HandlerOptions are what a Handler needs beside the Protocol. Submit is
// required.
type HandlerOptions struct {
	// Submit takes one order to the API and reports how that ended.
	Submit func(ctx context.Context, s order.Submission) order.Report
	Policy order.Policy
	// Draining: nothing new may be posted, the worker is about to stop. May be nil.
	Draining func() bool
	// Refused is called for each order whose write the broker refused, and
	// Stored when that order waits no more. In between nothing new may be posted
	// (R10). Both may be nil.
	Refused func(cause error)
	Stored  func()
}

// Handler takes a delivery from its check to its acknowledgement. It is the one
// place that says in which order the steps of the settle protocol happen:
//
//	what kind of work → submit → decide → settle → acknowledge
//
// It is safe for concurrent use.
type Handler struct {
	*Protocol
	HandlerOptions
	// alone is held for reading by every order that is worked on, and for
	// writing by one that is suspected of taking workers down (R8).
	alone Lock
}

// NewHandler makes a Handler.
func NewHandler(p *Protocol, o HandlerOptions) *Handler {
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	if o.Refused == nil {
		o.Refused = func(error) {}
	}
	if o.Stored == nil {
		o.Stored = func() {}
	}
	return &Handler{Protocol: p, HandlerOptions: o, alone: p.time.NewLock()}
}

// Observer is told what becomes of one delivery. It is used by one goroutine.
type Observer interface {
	// Submitting puts what is done with ctx under the delivery's trace.
	Submitting(ctx context.Context) context.Context
	// Settling begins the writing of an outcome or a note; the returned function
	// ends it. The record is nil where the write failed.
	Settling(order.Settlement) func(*order.Record, error)
	// Settled: the intent has its outcome.
	Settled(*order.Record)
	// Recognised: an earlier intent's outcome decides about this one, which was
	// not submitted: a repetition, a conflict, or one that is withheld.
	Recognised(*order.Record)
	// Returned: the intent went back to the queue, or was left to another worker.
	Returned(order.Report, order.Settlement, *order.Record)
	// Panicked: the handling broke; the delivery comes back and is handled alone.
	Panicked(any)
}

// job is one delivery on its way through the Handler.
type job struct {
	*Handler
	d   *Delivery
	obs Observer
	// attempts ends when the order may not be posted any more, writes when
	// nothing may be written any more.
	attempts, writes context.Context
	// submitted: the order was handed to Submit. It happens once in a delivery.
	submitted bool
}

// Handle brings a delivery to its end. The end of attempts breaks off what is
// being posted, the end of writes what is being written.
func (h *Handler) Handle(attempts, writes context.Context, d *Delivery, obs Observer) {
	defer d.Release()
	if d.Work == WorkSuspect {
		h.alone.Lock()
		defer h.alone.Unlock()
	} else {
		h.alone.RLock()
		defer h.alone.RUnlock()
	}
	j := &job{Handler: h, d: d, obs: obs, attempts: attempts, writes: writes}
	defer j.survive()
	if h.lacks(NoInheritedDoubt) {
		d.History.Unsure = false
	}
	j.run()
}

// run is the table of what each kind of work needs.
func (j *job) run() {
	switch d := j.d; d.Work {
	case WorkSettled:
		j.write(j.complete)
	case WorkRepeat:
		j.settleUnsent(j.Repeat)
	case WorkConflict, WorkWithheld:
		j.log.Warn().Str("order_no", d.OrderNo()).Stringer("work", d.Work).Msg("intent not submitted; see its dead letter")
		j.settleUnsent(j.Refuse)
	case WorkNotYet:
		j.handBack(d.Last.Record.NotBefore)
	case WorkClaimed:
		j.handBack(d.Last.Record.LastAttemptAt.Add(j.cfg.AttemptTimeout + time.Second))
	case WorkInvalid:
		j.invalid()
	case WorkSuspect:
		j.suspect()
	case WorkSubmit:
		j.submit()
	default:
		j.write(j.GiveUp)
	}
}

// write repeats one write of the protocol while the broker cannot store results,
// and says whether it was done. Meanwhile the gate is closed, so that at most
// what is in flight is ever posted into a full disk (R10); the repetition is the
// test write. Any other failure leaves the order to its next delivery.
//
// What is repeated is a write of the protocol and gets nothing but the delivery:
// it cannot post the order again.
func (j *job) write(do func(context.Context, *Delivery) error) bool {
	waits := false
	defer func() {
		if waits {
			j.Stored()
		}
	}()
	for {
		err := do(j.writes, j.d)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, ErrStorage):
			j.log.Warn().Err(err).Str("order_no", j.d.OrderNo()).Msg("order left to its next delivery")
			return false
		}
		if !waits && !j.lacks(NoStorageGate) {
			waits = true
			j.Refused(err)
		}
		if j.time.Sleep(j.writes, storageRetry) != nil {
			return false
		}
		if j.submitted && j.lacks(RetryEverything) {
			j.submitted = false
			j.submit()
			return false
		}
	}
}

func (j *job) complete(ctx context.Context, d *Delivery) error {
	if last := d.Last.Record; j.lacks(NoLetterCheck) && last.NeedsLetter() && !d.StoredAt.After(last.EnqueuedAt) {
		return d.answer.Ack()
	}
	return j.Complete(ctx, d)
}

// settleUnsent settles an intent that is not to be posted.
func (j *job) settleUnsent(settle func(context.Context, *Delivery) (Entry, error)) {
	var entry Entry
	if j.write(func(ctx context.Context, d *Delivery) (err error) {
		entry, err = settle(ctx, d)
		return err
	}) {
		j.obs.Recognised(entry.Record)
	}
}

// handBack returns a delivery that came before its time.
func (j *job) handBack(until time.Time) {
	j.write(func(ctx context.Context, d *Delivery) error { return j.HandBack(ctx, d, until.Sub(j.time.Now())) })
}

func (j *job) invalid() {
	j.conclude(order.Report{End: order.EndInvalid, Reason: j.d.InvalidReason(), Error: j.d.Invalid.Error(), History: j.d.History}, false)
}

// suspect handles an intent whose earlier deliveries nothing explains: alone,
// and with a note that is confirmed first, so that a worker that goes down
// with it leaves a trace (R8).
func (j *job) suspect() {
	d := j.d
	count := d.History.Suspects
	if j.lacks(PoisonByCount) {
		count = d.Unexplained + 1
	}
	if count >= PoisonAfter {
		j.conclude(poison(d.History), false)
		return
	}
	j.log.Warn().Str("order_no", d.OrderNo()).Int("unexplained", d.Unexplained).Msg("handling an order alone: nothing explains its earlier deliveries")
	switch {
	case !j.write(j.NoteSuspect):
	case d.Invalid != nil:
		j.invalid()
	default:
		j.submit()
	}
}

// poison is the end of an intent that took its workers down. Each delivery that
// did not come to its end may have sent a request, and counts as an attempt.
func poison(h order.History) order.Report {
	lost := h.Lost + h.Suspects
	h.Attempts += lost
	return order.Report{End: order.EndPoison, Reason: "poison", History: h,
		Error: fmt.Sprintf("handled alone %d times, and its worker went down each time; %d deliveries came to no end, and each may have sent it", h.Suspects, lost)}
}

// submit takes the order to the API under its lease, once, and settles what
// came of it.
func (j *job) submit() {
	d := j.d
	if j.submitted {
		panic("order submitted twice in one delivery") // no path leads here
	}
	j.submitted = true
	if j.Draining() {
		j.conclude(order.Report{End: order.EndHandBack, Reason: "worker stopping", History: d.History}, false)
		return
	}
	if j.mustNoteBegin() && !j.write(j.NoteBegun) {
		return
	}
	ctx, cancel := j.obs.Submitting(j.attempts), context.CancelFunc(func() {})
	if !j.lacks(NoLease) {
		ctx, cancel = d.lease.Bound(ctx, order.ErrLeaseLost)
	}
	defer cancel()
	if j.awaitReconnectGrace(ctx) != nil {
		j.conclude(order.Report{End: endOf(ctx), Reason: "given back before anything was sent", History: d.History}, false)
		return
	}
	proven := false
	s := order.Submission{
		Order: d.Order, History: d.History, EnqueuedAt: d.StoredAt, Deadline: d.Intent.Deadline,
		Traceparent: d.Intent.Traceparent, Allowed: d.Allowed, Fence: d.lease.Fence,
	}
	if j.lacks(NoLease) {
		s.Fence = nil
	}
	if j.Policy == order.Park {
		s.WriteAhead = func(ctx context.Context, h order.History) error {
			first, err := j.NoteAttempt(ctx, d, h)
			proven = proven || first
			return err
		}
	}
	report := j.Submit(ctx, s)
	j.conclude(report, proven)
}

// mustNoteBegin: a later delivery could not tell that this one posted the order.
func (j *job) mustNoteBegin() bool {
	d := j.d
	return d.Work != WorkSuspect && (d.Again || j.Policy == order.Resubmit && d.MustNoteBegin() && !j.lacks(NoBeginNote))
}

// awaitReconnectGrace waits after a reconnect before a redelivered order is
// posted: its former owner may still believe in its claim, and its attempt may
// still be on its way (R7).
func (j *job) awaitReconnectGrace(ctx context.Context) error {
	until := j.ReconnectGraceUntil()
	if j.d.Delivered == 1 && !j.d.Again || until.IsZero() || j.lacks(NoReconnectGrace) {
		return nil
	}
	wait := until.Sub(j.time.Now())
	if wait <= 0 {
		return nil
	}
	return j.time.Sleep(ctx, wait)
}

func endOf(ctx context.Context) order.End {
	if errors.Is(context.Cause(ctx), order.ErrLeaseLost) {
		return order.EndLeaseLost
	}
	return order.EndHandBack
}

// conclude asks order.Decide what becomes of the order, and settles that.
func (j *job) conclude(r order.Report, firstProven bool) {
	s := order.Decide(r, order.Facts{Policy: j.Policy, FirstProven: firstProven && !r.History.Unsure, Allowed: j.d.Allowed})
	settled := j.obs.Settling(s)
	var entry Entry
	var failed error
	done := j.write(func(ctx context.Context, d *Delivery) error {
		entry, failed = j.Settle(ctx, d, r, s)
		return failed
	})
	settled(entry.Record, failed)
	switch {
	case !done:
	case entry.Record.Outcome() == order.OutcomeNone:
		j.obs.Returned(r, s, entry.Record)
	default:
		j.obs.Settled(entry.Record)
	}
}

// survive turns a panic in the handling of one order into a suspect note: the
// worker goes on, the order comes back and is handled alone (R8).
func (j *job) survive() {
	what := recover()
	if what == nil {
		return
	}
	if !j.time.Survivable(what) {
		panic(what)
	}
	j.obs.Panicked(what)
	j.log.Error().Str("order_no", j.d.OrderNo()).Interface("panic", what).Bytes("stack", debug.Stack()).Msg("panic while handling an order")
	if j.d.Work != WorkSuspect { // else its note stands already
		j.write(j.NoteSuspect)
	}
}
