package submit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// maxTrail bounds Report.Trail: the last attempts of a visit.
const maxTrail = 32

// maxTrailAnswer bounds what each of them keeps of its answer, in bytes.
const maxTrailAnswer = 256

// visit is an order on its way through Submit.
type visit struct {
	*Submitter
	order.Submission

	report    order.Report // report.History is kept up to date
	budget    budget
	timeError bool // a timestamp was refused in this visit
}

// Submit takes one order as far as this visit can: to an answer that settles
// it, to the end of a budget, or to the end of ctx. If ctx ends with the cause
// [order.ErrLeaseLost] the report says EndLeaseLost, with any other EndHandBack; if
// a request was under way and may have had an effect, the report says so.
func (s *Submitter) Submit(ctx context.Context, v order.Submission) order.Report {
	s.jury.begin()
	defer s.jury.end()
	t := &visit{Submitter: s, Submission: v, budget: newBudget(&s.cfg)}
	t.report.History = excuse(v.History, t.budget.began, s.cfg.RetryDelayMax)
	if s.cfg.OnUnsure == order.Park && v.History.Unsure && !v.Allowed {
		t.report.Verdict, t.report.Reason = order.Unsure, "parked: an earlier attempt may have created it"
		return t.end(order.EndAnswer)
	}
	for {
		if end := t.attempt(ctx); end != order.EndNone {
			return t.end(end)
		}
	}
}

func (t *visit) end(e order.End) order.Report {
	t.report.End = e
	return t.report
}

// attempt makes one attempt, with all the waiting before and after it.
// EndNone: make another one.
func (t *visit) attempt(ctx context.Context) order.End {
	if end := t.mayTry(ctx); end != order.EndNone {
		return end
	}
	began := time.Now()
	p, err := t.gate.Enter(ctx, t.keys.suspected(t.Order.OrderNo()))
	waited := time.Since(began)
	t.waitedAtGate(waited)
	if err != nil {
		return t.interrupted(ctx, err)
	}
	defer p.Abandon()
	if end := t.lastChecks(ctx); end != order.EndNone {
		p.Release(gate.Signal{})
		return end
	}
	return t.exchange(ctx, p, waited)
}

// mayTry checks what can be known without waiting.
func (t *visit) mayTry(ctx context.Context) order.End {
	switch {
	case ctx.Err() != nil:
		return t.interrupted(ctx, context.Cause(ctx))
	case t.expired(time.Now()):
		return order.EndDeadline
	default:
		return order.EndNone
	}
}

func (t *visit) expired(now time.Time) bool { return !t.Deadline.IsZero() && now.After(t.Deadline) }

// waitedAtGate takes a wait out of the budgets.
func (t *visit) waitedAtGate(d time.Duration) {
	t.budget.gated += d
	if !t.report.History.FirstAttemptAt.IsZero() { // the age has begun
		t.report.History.GateWaitMS += d.Milliseconds()
	}
}

// interrupted says how the visit ends when a wait did.
func (t *visit) interrupted(ctx context.Context, err error) order.End {
	if errors.Is(err, order.ErrLeaseLost) || errors.Is(context.Cause(ctx), order.ErrLeaseLost) {
		return order.EndLeaseLost
	}
	if t.report.Error == "" {
		t.report.Error = t.clean(err.Error())
	}
	return order.EndHandBack
}

// lastChecks come after all waiting, directly before the attempt: the
// deadline, the claim, the note that is written ahead, the claim again.
func (t *visit) lastChecks(ctx context.Context) order.End {
	if t.expired(time.Now()) {
		return order.EndDeadline
	}
	if t.fenced() != nil {
		return order.EndLeaseLost
	}
	if t.WriteAhead == nil {
		return order.EndNone
	}
	if err := t.WriteAhead(ctx, t.counted(time.Now(), t.clock.stamp(t.report.History.LastTimestamp))); err != nil {
		return t.interrupted(ctx, err)
	}
	if t.fenced() != nil {
		return order.EndLeaseLost
	}
	return order.EndNone
}

func (t *visit) fenced() error {
	if t.Fence == nil {
		return nil
	}
	return t.Fence()
}

// counted is the history with one more attempt.
func (t *visit) counted(now time.Time, stamp int64) order.History {
	h := t.report.History
	h.Attempts++
	if h.FirstAttemptAt.IsZero() {
		h.FirstAttemptAt = now
	}
	h.LastAttemptAt, h.LastTimestamp = now, stamp
	return h
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// exchange stamps, signs, sends, and judges what came back.
func (t *visit) exchange(ctx context.Context, p *gate.Permit, waited time.Duration) order.End {
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
	t.report.History = t.counted(time.Now(), stamp)
	t.budget.attempts++
	traceparent, ended := t.traced(ctx)
	size := len(body)
	x := t.client.post(ctx, t.Order.OrderNo(), body, pair.Key, signature, traceparent)
	if cap(body) <= mostKept {
		*buf = body
		buffers.Put(buf)
	}
	return t.conclude(ctx, p, pair, &x, attemptFacts{waited: waited, size: size, ended: ended})
}

// traced begins the following of an attempt. The header is empty where none is
// to be sent: it names the attempt's own span, or the order's where nobody
// follows attempts.
func (t *visit) traced(ctx context.Context) (header string, ended func(AttemptEvent)) {
	header = t.Traceparent
	if t.trace != nil {
		var own string
		if own, ended = t.trace(ctx); own != "" {
			header = own
		}
	}
	if !t.cfg.Traceparent {
		header = ""
	}
	return header, ended
}

// attemptFacts are for the observer and the tracer.
type attemptFacts struct {
	waited time.Duration
	size   int
	ended  func(AttemptEvent) // may be nil
}

// wait sleeps; it says how the visit ends if ctx ends first.
func (t *visit) wait(ctx context.Context, d time.Duration) order.End {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return order.EndNone
	case <-ctx.Done():
		return t.interrupted(ctx, context.Cause(ctx))
	case <-t.gate.Draining():
		return t.interrupted(ctx, gate.ErrDraining)
	}
}
