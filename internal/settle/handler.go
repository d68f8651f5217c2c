package settle

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
)

// storageRetry is the time between two tries of a write while the broker
// refuses results (R10).
const storageRetry = time.Second

// HandlerOptions are what a Handler needs besides the Worker. Submit is
// required.
type HandlerOptions struct {
	// Submit submits one order to the API and reports how the submission ended.
	Submit func(ctx context.Context, s *order.Submission) *order.Report
	// Asks reports whether Submit asks the API about this order while it is in doubt, and
	// posts nothing then. It may be nil: it asks about none.
	Asks   func(*order.Order, order.History) bool
	Policy order.Policy
	// Draining reports that the worker is about to stop and must post nothing
	// new. It may be nil.
	Draining func() bool
	// Refused is called when the broker refuses to store a write of an order,
	// and Stored when that order no longer waits for it. The worker must post
	// nothing new in between (R10). Both may be nil.
	Refused func(cause error)
	Stored  func()
}

// Handler takes a delivery from its check to its acknowledgement. It alone sets
// the order of the steps of the settle protocol:
//
//	what kind of work → submit → decide → settle → acknowledge
//
// It is safe for concurrent use.
type Handler struct {
	HandlerOptions
	worker *Worker
	// alone is held for reading while an order is handled, and for writing
	// while an order is handled that may take its worker down (R8).
	alone Lock
}

// NewHandler returns a Handler.
func NewHandler(w *Worker, o HandlerOptions) *Handler {
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	if o.Asks == nil {
		o.Asks = func(*order.Order, order.History) bool { return false }
	}
	if o.Refused == nil {
		o.Refused = func(error) {}
	}
	if o.Stored == nil {
		o.Stored = func() {}
	}
	return &Handler{HandlerOptions: o, worker: w, alone: w.ledger.time.NewLock()}
}

// Observer is told what becomes of one delivery. One goroutine uses it.
type Observer interface {
	// Submitting returns a context that carries the delivery's trace.
	Submitting(ctx context.Context) context.Context
	// Settling is called before an outcome or a note is written, and the
	// function that it returns afterwards. The record is nil if the write
	// failed.
	Settling(order.Settlement) func(*order.Record, error)
	// Settled: the intent has an outcome.
	Settled(*order.Record)
	// Recognised: an earlier intent's outcome decided about this one, which was
	// not submitted: a repetition, a conflict, or a withheld intent.
	Recognised(*order.Record)
	// Returned: the intent went back to the queue, or was left to another
	// worker.
	Returned(*order.Report, order.Settlement, *order.Record)
	// Panicked: the handling panicked. The intent is delivered again and
	// handled alone.
	Panicked(any)
}

// job is one delivery on its way through the Handler.
type job struct {
	*Handler
	d   *Delivery
	obs Observer
	// attempts ends when the order must not be posted any more. writes ends
	// when nothing must be written any more.
	attempts, writes context.Context
	// asks says that the order is looked up, and not posted in this delivery: because its intent only
	// asks (R3), or because it may have taken a worker down, which a lookup does not (R8).
	asks bool
	// submitted says that the order was handed to Submit. That happens once in
	// a delivery.
	submitted bool
	// refused says that the broker refused a write of this order, which waits for it.
	refused bool
}

// unobserved is the Observer of a delivery that nobody watches. A panic goes on.
type unobserved struct{}

func (unobserved) Submitting(ctx context.Context) context.Context { return ctx }
func (unobserved) Settling(order.Settlement) func(*order.Record, error) {
	return func(*order.Record, error) {}
}
func (unobserved) Settled(*order.Record)                                   {}
func (unobserved) Recognised(*order.Record)                                {}
func (unobserved) Returned(*order.Report, order.Settlement, *order.Record) {}
func (unobserved) Panicked(v any)                                          { panic(v) }

// Handle handles one delivery. The end of attempts interrupts a submission, the
// end of writes interrupts a write. obs may be nil.
func (h *Handler) Handle(attempts, writes context.Context, d *Delivery, obs Observer) {
	defer d.Release()
	if obs == nil {
		obs = unobserved{}
	}
	asks := (d.Work == WorkSuspect || d.looksUp()) && d.Invalid == nil && d.History.Unsure && !d.Allowed && h.Asks(d.Order, d.History)
	if d.Work == WorkSuspect && !asks {
		h.alone.Lock()
		defer h.alone.Unlock()
	} else {
		h.alone.RLock()
		defer h.alone.RUnlock()
	}
	j := &job{Handler: h, d: d, obs: obs, attempts: attempts, writes: writes, asks: asks}
	defer j.stored() // if a panic came between the refusal and a write that ends it
	defer j.recoverPanic()
	j.run()
}

// run maps each kind of work to its handling.
func (j *job) run() {
	if d := j.d; d.looksUp() && (d.Work == WorkSubmit || d.Work == WorkSuspect) && (!j.asks || j.worker.ledger.time.Now().After(d.Intent.LookupUntil)) {
		j.unasked()
		return
	}
	switch d := j.d; d.Work {
	case WorkSettled:
		j.write(j.worker.Complete)
	case WorkRepeat:
		j.settleUnsent(j.worker.Repeat)
	case WorkConflict, WorkWithheld:
		j.worker.ledger.log.Warn().Str("order_no", d.OrderNo()).Stringer("work", d.Work).Msg("intent not submitted; see its dead letter")
		j.settleUnsent(j.worker.Refuse)
	case WorkNotYet:
		j.handBack(d.wait)
	case WorkClaimed:
		j.handBack(d.wait + time.Second)
	case WorkInvalid:
		j.invalid()
	case WorkSuspect:
		if j.asks {
			j.submit()
		} else {
			j.suspect()
		}
	case WorkCancelled:
		j.conclude(&order.Report{End: order.EndCancelled, Reason: withdrawnReason, History: d.History}, false)
	case WorkPassed:
		j.worker.ledger.log.Info().Str("order_no", d.OrderNo()).Msg("intent settled before, and brought back by the broker; not submitted")
		j.write(j.worker.Pass)
	case WorkGone:
		j.worker.ledger.log.Info().Str("order_no", d.OrderNo()).Msg("intent settled by another worker while it was on its way to this one; not submitted")
	case WorkSubmit:
		j.submit()
	default:
		j.write(j.worker.GiveUp)
	}
}

// write repeats a write while the broker cannot store results, and reports
// whether it succeeded. Meanwhile the gate is closed, so at most the orders in
// flight are posted into a full disk (R10). The repeated write is the test
// write. Any other failure leaves the order to its next delivery.
//
// The repeated function gets the delivery alone. It cannot post the order
// again.
func (j *job) write(do func(context.Context, *Delivery) error) bool {
	defer j.stored()
	for {
		err := do(j.writes, j.d)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, ErrStorage):
			j.worker.ledger.log.Warn().Err(err).Str("order_no", j.d.OrderNo()).Msg("order left to its next delivery")
			return false
		}
		j.heard(err)
		if j.worker.ledger.time.Sleep(j.writes, storageRetry) != nil {
			return false
		}
	}
}

// heard closes the gate if the broker refused a write of this order for want of storage.
func (j *job) heard(err error) {
	if errors.Is(err, ErrStorage) && !j.refused {
		j.refused = true
		j.Refused(err)
	}
}

// stored opens the gate again, as far as this order closed it.
func (j *job) stored() {
	if j.refused {
		j.refused = false
		j.Stored()
	}
}

// settleUnsent settles an intent that must not be posted.
func (j *job) settleUnsent(settle func(context.Context, *Delivery) (Entry, error)) {
	var entry Entry
	if j.write(func(ctx context.Context, d *Delivery) (err error) {
		entry, err = settle(ctx, d)
		return err
	}) {
		j.obs.Recognised(entry.Record)
	}
}

// handBack gives back a delivery that came early.
func (j *job) handBack(wait time.Duration) {
	j.write(func(ctx context.Context, d *Delivery) error { return j.worker.HandBack(ctx, d, wait) })
}

// invalid settles an intent that can never be sent.
func (j *job) invalid() {
	j.conclude(&order.Report{End: order.EndInvalid, Reason: j.d.InvalidReason(), Error: j.d.Invalid.Error(), History: j.d.History}, false)
}

// unasked settles an intent that only asks, and that asks no more: its time is over, the rules do not say how
// the API is asked, or somebody ended the doubt before it was delivered. Doubt stays doubt.
func (j *job) unasked() {
	h := j.d.History
	if j.d.Last.Record == nil {
		h.Doubt("nothing is recorded about the order that was to be looked up")
	}
	r := &order.Report{End: order.EndTotalBudget, Reason: "not settled by a lookup", History: h}
	switch {
	case !h.Unsure:
		r.End, r.Reason = order.EndCancelled, "the doubt was over before the order was looked up"
	case j.asks:
		r.Error = "asked until " + j.d.Intent.LookupUntil.UTC().Format(time.RFC3339) + ", and no answer ended the doubt"
	default:
		r.Error = "nobody said how the API is asked: see lookup in the rules"
	}
	j.conclude(r, false)
}

// submit submits the order under its lease, once, and settles the result.
func (j *job) submit() {
	d := j.d
	if j.submitted {
		panic("order submitted twice in one delivery") // no path leads here
	}
	j.submitted = true
	if j.Draining() {
		j.conclude(&order.Report{End: order.EndHandBack, Reason: "worker stopping", History: d.History}, false)
		return
	}
	if j.mustNoteBegin() && !j.write(j.worker.NoteBegun) {
		return
	}
	ctx, cancel := d.lease.Bound(j.obs.Submitting(j.attempts), order.ErrLeaseLost)
	defer cancel()
	proven := false
	s := &order.Submission{
		Order: d.Order, History: d.History, Deadline: d.Intent.Deadline, AbsentFor: d.absentFor,
		Traceparent: d.Intent.Traceparent, Allowed: d.Allowed, LookOnly: j.asks,
		Fence:     func(ctx context.Context) error { return j.worker.Fence(ctx, d) },
		Cancelled: func(h order.History) (bool, <-chan struct{}) { return j.cancels(d, h) },
	}
	if j.Policy == order.Park {
		s.WriteAhead = func(ctx context.Context, h order.History) error {
			var err error
			proven, err = j.worker.BeginAttempt(ctx, d, h)
			j.heard(err) // the write of the hand-back, which follows, is the test write
			return err
		}
	}
	report := j.Submit(ctx, s)
	if report.End == order.EndCancelled {
		report.Reason, report.Error = withdrawnReason, ""
	}
	j.conclude(report, proven)
}

// cancels reports whether a person withdrew the order, whose history is h by now, and
// returns a channel that is closed when the answer may be another one.
func (j *job) cancels(d *Delivery, h order.History) (bool, <-chan struct{}) {
	_, changed := j.worker.ledger.CancellationsChanged()
	mark := j.worker.withdrawn(d, h)
	if mark != nil {
		d.cancelledBy = mark.By
	}
	return mark != nil, changed
}

// mustNoteBegin reports whether a later delivery could not tell that this one
// posted the order. A broker that was killed may have forgotten this delivery,
// and would then count the next one as the delivery that an earlier note
// explains. Under park a note precedes each attempt.
func (j *job) mustNoteBegin() bool {
	d := j.d
	return !j.asks && d.Work != WorkSuspect && (d.CountLost || j.Policy == order.Resubmit && d.Redelivered())
}

// conclude asks order.Decide for the settlement and carries it out.
func (j *job) conclude(r *order.Report, firstProven bool) {
	policy := j.Policy
	if j.d.looksUp() {
		policy, r.Repost = order.Park, false
	}
	s := order.Decide(r, order.Facts{Policy: policy, FirstProven: firstProven && !r.History.Unsure, Allowed: j.d.Allowed})
	settled := j.obs.Settling(s)
	var entry Entry
	var failed error
	done := j.write(func(ctx context.Context, d *Delivery) error {
		entry, failed = j.worker.Settle(ctx, d, r, s)
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
