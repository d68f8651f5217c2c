package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
)

// maxTrail is the largest number of attempts in Report.Trail, which keeps the last ones.
const maxTrail = 32

// maxTrailAnswer is the largest part of an answer in the trail, in bytes.
const maxTrailAnswer = 256

// submission is the state of one call of Submit.
type submission struct {
	*Submitter
	*order.Submission

	report    *order.Report // outlives the submission, while it waits for the broker; report.History is always up to date
	budget    budget
	timeError bool          // a timestamp was refused in this submission
	shown     string        // the beginning of the last answer
	before    order.History // before the last answer was judged
}

// Submit makes attempts until an answer settles the order, a budget is used up, or ctx
// ends. If ctx ends with the cause [order.ErrLeaseLost], the report says EndLeaseLost,
// otherwise EndHandBack. If a request in flight may have had an effect, the report
// says so.
func (s *Submitter) Submit(ctx context.Context, v *order.Submission) *order.Report {
	s.refusals.begin()
	defer s.refusals.end()
	s.broken.begin()
	defer s.broken.end()
	t := &submission{Submitter: s, Submission: v, report: &order.Report{History: v.History}, budget: newBudget(&s.cfg)}
	creditQueueTime(&t.report.History, t.budget.began, s.cfg.RetryDelayMax)
	for {
		if end := t.attempt(ctx); end != order.EndNone {
			t.report.End = end
			return t.report
		}
	}
}

// attempt makes one attempt, with the waits before and after it. It returns EndNone if
// another attempt follows.
func (t *submission) attempt(ctx context.Context) order.End {
	if ctx.Err() != nil {
		return t.interrupted(ctx, context.Cause(ctx))
	}
	if t.report.History.Unsure && (t.lookup() != nil || !t.expired()) {
		if end := t.endDoubt(ctx); end != order.EndNone {
			return end
		}
	}
	if t.LookOnly {
		return order.EndHandBack
	}
	if t.expired() {
		return order.EndDeadline
	}
	began := time.Now()
	p, err := t.enter(ctx)
	waited := time.Since(began)
	t.waitedAtGate(waited)
	if errors.Is(err, gate.ErrWoken) {
		return order.EndCancelled
	}
	if err != nil {
		return t.interrupted(ctx, err)
	}
	defer p.Abandon()
	if end := t.lastChecks(ctx); end != order.EndNone {
		if end == order.EndInvalid {
			return t.onBroken(ctx, p)
		}
		p.Release(gate.Signal{})
		return end
	}
	return t.exchange(ctx, p, waited)
}

// enter waits at the gate. It returns gate.ErrWoken if a person withdraws the order
// meanwhile.
func (t *submission) enter(ctx context.Context) (*gate.Permit, error) {
	for {
		withdrawn, wake := t.cancelled()
		if withdrawn {
			return nil, gate.ErrWoken
		}
		p, err := t.gate.Enter(ctx, t.faults.suspected(t.Order.OrderNo()), wake)
		if !errors.Is(err, gate.ErrWoken) {
			return p, err
		}
	}
}

// cancelled calls Submission.Cancelled with the history by now.
func (t *submission) cancelled() (bool, <-chan struct{}) {
	if t.Cancelled == nil {
		return false, nil
	}
	return t.Cancelled(t.report.History)
}

func (t *submission) expired() bool {
	return !t.Deadline.IsZero() && t.clock.deadlines().After(t.Deadline)
}

// lastChecks runs directly before the attempt, after all waits. It checks the deadline, a
// person's cancellation, the user's schema and the fence, writes the note ahead, and checks the fence again.
func (t *submission) lastChecks(ctx context.Context) order.End {
	if t.expired() {
		return order.EndDeadline
	}
	if withdrawn, _ := t.cancelled(); withdrawn {
		return order.EndCancelled
	}
	if t.breaksSchema() {
		return order.EndInvalid
	}
	err := t.fenced(ctx)
	if err == nil && t.WriteAhead != nil {
		if err = t.writeAhead(ctx); err == nil {
			err = t.fenced(ctx)
		}
	}
	if err != nil {
		return t.interrupted(ctx, err)
	}
	return order.EndNone
}

func (t *submission) writeAhead(ctx context.Context) error {
	h := t.report.History
	count(&h, time.Now(), t.clock.stamp(h.LastTimestamp))
	return t.WriteAhead(ctx, h)
}

// breaksSchema reports whether the order breaks the user's schema. Once it may have been
// attempted, a schema decides nothing about it: "invalid" would claim that it was not
// created (R3).
func (t *submission) breaksSchema() bool {
	h := &t.report.History
	if t.schema == nil || h.Attempts > 0 || h.Lost > 0 || h.Unsure {
		return false
	}
	content := t.schema.Taken()
	bad := t.schema.Check(t.Order)
	if bad == nil {
		t.fulfilled.Store(max(content, t.fulfilled.Load()))
		t.broken.orderCreated()
		return false
	}
	t.report.Reason, t.report.Error = bad.Reason(), bad.Error()
	return true
}

// onBroken ends an order that breaks the schema as invalid, if another one fulfilled it. Otherwise it
// holds that back as onRejected does a refusal: a schema with a mistake would end every order in the
// queue. A run of such orders goes back to the queue and holds the pool.
func (t *submission) onBroken(ctx context.Context, p *gate.Permit) order.End {
	if t.fulfilled.Load() == t.schema.Taken() {
		p.Release(gate.Signal{})
		return order.EndInvalid
	}
	awaits, full := t.reportRefusal(p, t.broken, nil, func() string {
		return "a run of different orders that break the order schema without one that fulfils it, the last one: " + t.report.Error +
			": is ORDERPOST_ORDER_SCHEMA right? If it is, resume. The worker reads its file again when it changes"
	})
	p.Release(gate.Signal{})
	if !full && (awaits == nil || t.broken.await(ctx, awaits) && t.breaksSchema()) { // the schema may be another one by now
		return order.EndInvalid
	}
	t.faults.recall(t.Order.OrderNo())
	t.report.Reason, t.report.Error = "", ""
	return t.interruptedOr(ctx, order.EndHandBack)
}

func (t *submission) fenced(ctx context.Context) error {
	if t.Fence == nil {
		return nil
	}
	return t.Fence(ctx)
}

// count adds an attempt to a history. Its times are in UTC, whatever the machine's zone is,
// as those that the settle protocol adds.
func count(h *order.History, now time.Time, stamp int64) {
	now = now.UTC()
	h.Attempts++
	if h.FirstAttemptAt.IsZero() {
		h.FirstAttemptAt = now
	}
	h.LastAttemptAt, h.LastTimestamp, h.AbsentAt = now, stamp, time.Time{}
}

// maxKeptBuffer is the largest buffer, in bytes, that is kept for another order.
const maxKeptBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// exchange stamps, signs and posts the order, and concludes the attempt.
func (t *submission) exchange(ctx context.Context, p *gate.Permit, waited time.Duration) order.End {
	pair := t.keys.use()
	stamp := t.clock.stamp(t.report.History.LastTimestamp)
	if !order.ValidTimestamp(stamp) {
		p.Release(gate.Signal{})
		t.report.Error = fmt.Sprintf("timestamp %d cannot be signed: this machine's clock is wrong", stamp)
		return order.EndHandBack
	}
	buf := buffers.Get().(*[]byte)
	body, signature, err := pair.Signer.Sign((*buf)[:0], t.Order, stamp)
	if err != nil {
		p.Release(gate.Signal{})
		t.report.Reason, t.report.Error = "cannot be signed", t.clean(err.Error())
		return order.EndInvalid
	}
	count(&t.report.History, time.Now(), stamp)
	t.budget.attempts++
	traceparent, span := t.traced(ctx)
	if e := t.log.Debug(); e.Enabled() {
		e.Str("order_no", t.Order.OrderNo()).Int64("timestamp", stamp).Int64("at_ns", time.Now().UnixNano()).Msg("order posted")
	}
	event := AttemptEvent{OrderNo: t.Order.OrderNo(), TraceID: span.TraceID, Attempt: t.report.History.Attempts, RequestBytes: len(body),
		GateWait: waited, RateWait: p.RateWaited()}
	x := t.sender.Post(ctx, http1.Order{No: t.Order.OrderNo(), Body: body, Key: pair.Key, Signature: signature, Traceparent: traceparent})
	if cap(body) <= maxKeptBuffer {
		*buf = body
		buffers.Put(buf)
	}
	return t.conclude(ctx, p, pair, &x, event, span)
}

// traced starts the trace of an attempt. header names the attempt's span, or the
// order's if attempts are not traced. It is empty if ORDERPOST_API_TRACEPARENT is off.
func (t *submission) traced(ctx context.Context) (header string, span Span) {
	header = t.Traceparent
	if t.trace != nil {
		span = t.trace(ctx, t.orders, t.report.History.Attempts)
		header = cmp.Or(span.Traceparent, header)
	}
	if !t.cfg.Traceparent {
		header = ""
	}
	return header, span
}
