package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

// errToxic is the panic that toxic orders cause.
var errToxic = errors.New("this order is too much for a worker")

// submission models submit's submission: the attempts on one delivery.
type submission struct {
	*worker
	proc *proc
	d    *delivery
	*order.Submission
	ctx      context.Context
	report   order.Report
	attempts int
	began    time.Duration
	gated    time.Duration
	entered  time.Duration // when the order last passed the gate
	before   order.History // before the last answer was judged
}

// submit models Submitter.Submit.
func (k *worker) submit(ctx context.Context, s *order.Submission) *order.Report {
	p := k.e.running
	ctx = k.mutateSubmission(ctx, p.delivery, s)
	v := &submission{worker: k, proc: p, d: p.delivery, Submission: s, ctx: ctx, began: k.e.at}
	v.report.History = v.creditQueueTime(s.History)
	for v.report.End == order.EndNone {
		v.report.End = v.attempt()
	}
	p.delivery.again = func() { k.submit(ctx, s) }
	return &v.report
}

// creditQueueTime models submit's creditQueueTime.
func (v *submission) creditQueueTime(h order.History) order.History {
	if h.LastAttemptAt.IsZero() {
		return h
	}
	if over := v.wall().Sub(h.LastAttemptAt) - v.w.cfg.DelayMax; over > 0 {
		h.GateWaitMS += over.Milliseconds()
	}
	return h
}

// attempt models submission.attempt: the gate, the last checks, the exchange.
func (v *submission) attempt() order.End {
	if v.ctx.Err() != nil {
		return v.interrupted()
	}
	l := v.lookup()
	if v.report.History.Unsure && (l != nil || !v.expired()) {
		if end := v.kept(); end != order.EndNone {
			return end
		}
		if l != nil && v.report.History.Unsure {
			return v.lookUp(l)
		}
	}
	if v.LookOnly {
		return order.EndHandBack
	}
	if v.expired() {
		return order.EndDeadline
	}
	if v.cancelled() {
		return order.EndCancelled
	}
	if end := v.gate(); end != order.EndNone {
		return end
	}
	if end := v.lastChecks(); end != order.EndNone {
		return end
	}
	return v.exchange()
}

func (v *submission) expired() bool {
	at := v.Deadline
	return !at.IsZero() && v.wall().After(at)
}

// gate models Gate.Enter. The gate is mostly open, sometimes slow, and sometimes closed
// for longer than an order waits at it.
func (v *submission) gate() order.End {
	v.proc.step = StepGate
	began := v.e.at
	patience := v.w.cfg.GatePatience
	wait := time.Duration(0)
	if v.w.strikes(FaultGateBusy, v.w.cfg.GateBusy) {
		wait = v.e.between(0, patience+patience/4)
	}
	err := v.e.sleep(v.ctx, min(wait, patience))
	for err == nil && v.unstored > 0 && v.e.at-began < patience {
		err = v.e.sleep(v.ctx, 100*time.Millisecond)
	}
	waited := v.e.at - began
	v.gated += waited
	if !v.report.History.FirstAttemptAt.IsZero() {
		v.report.History.GateWaitMS += waited.Milliseconds()
	}
	switch {
	case err != nil:
		return v.interrupted()
	case v.unstored > 0 || wait > patience:
		return order.EndHandBack
	default:
		v.entered = v.e.at
		return order.EndNone
	}
}

func (v *submission) interrupted() order.End {
	if errors.Is(context.Cause(v.ctx), order.ErrLeaseLost) {
		return order.EndLeaseLost
	}
	return order.EndHandBack
}

// lastChecks models submission.lastChecks.
func (v *submission) lastChecks() order.End {
	switch {
	case v.expired():
		return order.EndDeadline
	case v.cancelled():
		return order.EndCancelled
	}
	if err := v.fenced(); err != nil {
		return v.interruptedBy(err)
	}
	if v.WriteAhead == nil {
		return order.EndNone
	}
	if err := v.WriteAhead(v.ctx, v.counted()); err != nil {
		return v.interruptedBy(err)
	}
	if err := v.fenced(); err != nil {
		return v.interruptedBy(err)
	}
	return order.EndNone
}

// cancelled models submission.cancelled.
func (v *submission) cancelled() bool {
	withdrawn, _ := v.Cancelled(v.report.History)
	return withdrawn
}

func (v *submission) fenced() error {
	if v.Fence == nil {
		return nil
	}
	return v.Fence(v.ctx)
}

func (v *submission) interruptedBy(err error) order.End {
	if errors.Is(err, order.ErrLeaseLost) {
		return order.EndLeaseLost
	}
	return v.interrupted()
}

func (v *submission) counted() order.History {
	h := v.report.History
	h.Attempts++
	if h.FirstAttemptAt.IsZero() {
		h.FirstAttemptAt = v.wall()
	}
	now := v.wall()
	h.AbsentAt = time.Time{}
	h.LastAttemptAt, h.LastTimestamp = now, v.nextTimestamp(h.LastTimestamp, v.stampingClock())
	return h
}

// exchange models submission.exchange, judge, record and applyToPool.
func (v *submission) exchange() order.End {
	no := v.d.OrderNo()
	at := &attempt{orderNo: no, intent: v.d.Intent.ID, seq: v.d.Seq, body: v.d.Order.BodyHash(), host: v.host,
		claim: claimOf(v.d.arrival.Reply), gate: v.entered, signed: v.e.at}
	v.mayFreeze(v.w.cfg.FreezeBeforePost, v.w.cfg.AckWait+v.w.cfg.AckWait/2)
	v.boundary(v.proc) // the process may freeze after its last check
	v.report.History = v.counted()
	v.attempts++
	v.proc.step = StepPost
	at.stamp, at.reading = v.report.History.LastTimestamp, v.stampingClock()
	v.w.witness.posted(at)
	v.say(v.d, "POST", "attempt %d for %s", v.report.History.Attempts, v.d.Intent.ID)
	if v.w.toxic[no] {
		v.takeDown()
	}
	r := v.w.api.post(v.ctx, v.proc, at, v.w.cfg.RequestTimeout)
	if r.verdict == order.Accepted && v.w.cfg.Misread > 0 && v.w.strikes(FaultMisread, v.w.cfg.Misread) {
		r.verdict, r.misread = order.Rejected, true
	}
	v.w.witness.answered(at, r.verdict)
	v.say(v.d, "answer", "%s (status %d)", r.verdict, r.status)
	v.mayFreeze(v.w.cfg.FreezeAfterPost, 3*v.w.cfg.AckWait+10*time.Second)
	v.boundary(v.proc)
	h := &v.report.History
	v.before = *h
	v.report.Verdict, v.report.Final, v.report.Status = r.verdict, r.final, r.status
	v.report.Trail = append(v.report.Trail, order.Attempt{Verdict: r.verdict})
	switch {
	case r.verdict == order.Unsure:
		h.Doubt("unsure")
	case r.verdict == order.Accepted, r.final:
		h.Unsure = false
	}
	return v.applyToPool(at, r)
}

// mayFreeze freezes the process with a probability, for a time up to most.
func (v *submission) mayFreeze(p float64, most time.Duration) {
	if p > 0 && v.w.strikes(FaultFreeze, p) {
		v.freeze(v.e.between(0, most))
	}
}

// takeDown ends the process or panics, as a toxic order does.
func (v *submission) takeDown() {
	v.w.witness.about(oracle.TookDown, v.d.OrderNo())
	if v.w.chance(0.5) {
		v.crash("taken down by " + v.d.OrderNo())
		panic(killed{})
	}
	panic(errToxic)
}

// applyToPool models submission.applyToPool and retryOrReturn.
func (v *submission) applyToPool(at *attempt, r reply) order.End {
	switch r.verdict {
	case order.Accepted, order.Duplicate:
		return order.EndAnswer
	case order.Rejected: // refusals.go: believed, or recalled together with others
		if r.misread || v.w.strikes(FaultCalledBack, v.w.cfg.CallBack) {
			v.recall(r)
			v.w.witness.tell(oracle.Event{Kind: oracle.CalledBack, Attempt: at.number, Doubt: v.report.History.Recalled.Rule > 0})
			v.say(v.d, "called back", "")
			if v.ctx.Err() != nil {
				return v.interrupted()
			}
			return order.EndHandBack
		}
		v.believed()
		return order.EndAnswer
	case order.Denied: // faults.go: the cause of a denial shows later
		if v.e.sleep(v.ctx, v.e.between(0, 3*time.Second)) != nil {
			return v.interrupted()
		}
		if v.w.chance(0.5) {
			return order.EndHandBack
		}
		return order.EndNone
	}
	return v.retryOrReturn(r)
}

// retryOrReturn models submission.retryOrReturn, budget.next and budget.delay.
func (v *submission) retryOrReturn(r reply) order.End {
	cfg, h := &v.w.cfg, v.report.History
	throttle := r.status == 429
	switch {
	case r.verdict == order.Unsure && v.ctx.Err() == nil && v.lookup() != nil:
		return v.lookAgain(cfg.Lookup.First)
	case r.verdict == order.Unsure && cfg.Policy == order.Park:
		if v.ctx.Err() != nil {
			return v.interrupted()
		}
		return order.EndAnswer
	case v.ctx.Err() != nil:
		return v.interrupted()
	case !throttle && h.Attempts >= cfg.TotalAttempts:
		return order.EndTotalBudget
	}
	wait := v.e.between(0, cfg.RetryMax)
	if spent := v.e.at - v.began - v.gated; v.attempts >= cfg.SubmissionAttempts || spent+wait > cfg.SubmissionTime {
		delay := cfg.DelayBase << min(h.Attempts/cfg.SubmissionAttempts, 4)
		v.report.Delay = min(v.e.between(delay/2, delay+delay/2), cfg.DelayMax)
		if at := v.Deadline; !at.IsZero() {
			v.report.Delay = max(0, min(v.report.Delay, at.Sub(v.wall())+time.Millisecond))
		}
		return order.EndSubmissionBudget
	}
	if v.e.sleep(v.ctx, wait) != nil {
		return v.interrupted()
	}
	return order.EndNone
}

func wordOf(r *order.Record) string {
	switch {
	case r == nil:
		return "none"
	case r.Note != order.NoteNone:
		return fmt.Sprintf("%s note", r.Note)
	default:
		return r.Word
	}
}
