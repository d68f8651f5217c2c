package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit"
	"orderpost/internal/platform/jobs"
)

// auditKind is the kind of the job that balances the books. One runs at a time.
const auditKind = "audit"

// booksPage shows the last audit, running or done.
type booksPage struct {
	Job     *jobs.Job
	Running bool // asked once: the audit may end while the page is made
	// Audit is nil until the first audit has ended well.
	Audit   *audit.AuditResult
	Tone    string
	Verdict string
	Wrong   []string
	Took    time.Duration
	Failed  string
	MayStop bool
}

func showBooks(v *visit) error {
	p := booksPage{Job: v.s.jobs.Last(auditKind)}
	v.live = true
	if p.Job == nil {
		return v.render("books", "Books", p)
	}
	p.MayStop = mayStop(v, p.Job)
	if p.Running = p.Job.State() == jobs.Running; p.Running {
		return v.render("books", "Books", p)
	}
	p.Took = p.Job.Ended().Sub(p.Job.Started).Round(time.Millisecond)
	result, err := p.Job.Result()
	switch a, ok := result.(*audit.AuditResult); {
	case p.Job.State() == jobs.Stopped:
		p.Failed = "It was stopped before its end, so it says nothing about the books."
		if by := p.Job.Stopper(); by != "" {
			p.Failed = "It was stopped by " + by + " before its end, so it says nothing about the books."
		}
	case err != nil && away(err):
		p.Failed = "The broker went out of reach, so it says nothing about the books. Start another one when the broker is back."
	case err != nil:
		p.Failed = "It failed, so it says nothing about the books: " + sentence(err.Error())
	case ok:
		p.Audit = a
		p.judge()
	}
	return v.render("books", "Books", p)
}

// judge says in sentences whether the books balance, and what does not.
func (p *booksPage) judge() {
	a := p.Audit
	if a.Balanced() {
		p.Tone, p.Verdict = "good", "The books balance: every intent is accounted for, and the streams agree."
		return
	}
	p.Tone, p.Verdict = "bad", "The books do not balance."
	if a.Unsure() {
		p.Tone, p.Verdict = "warn", "Whether the books balance is not known yet. Start another audit when less moves."
	}
	switch missing := a.Missing(); {
	case missing > 0:
		p.Wrong = append(p.Wrong, fmt.Sprintf("%s not accounted for: %s.", plural(missing, "intent is", "intents are"), a.WhyMissing()))
	case missing < 0:
		p.Wrong = append(p.Wrong, fmt.Sprintf("%s more accounted for than were ever stored: %s.", plural(-missing, "intent is", "intents are"), a.WhyMissing()))
	}
	if a.OffenderCount > 0 {
		p.Wrong = append(p.Wrong, fmt.Sprintf("The streams contradict each other about %s.", plural(a.OffenderCount, "order", "orders")))
	}
	if a.Looks > 1 {
		p.Wrong = append(p.Wrong, fmt.Sprintf("Orders moved while the books were read; this is the last of %d looks.", a.Looks))
	}
}

func startAudit(v *visit) error {
	q := v.queue()
	_, err := v.s.jobs.Start(jobs.Spec{Kind: auditKind, Key: auditKind, Title: "Audit", By: v.person().Name}, func(ctx context.Context, job *jobs.Job) (any, error) {
		a, err := audit.Run(ctx, q, audit.Options{Tell: func(p audit.AuditProgress) {
			job.Tell(jobs.Progress{Step: fmt.Sprintf("look %d", p.Look), Done: int64(p.Read), Of: int64(max(p.Read, p.Of))})
		}})
		if err == nil {
			err = approval.Audit(ctx, q, a)
		}
		return a, err
	})
	return v.doneUnless(busy(err), "/books", "")
}

func stopAudit(v *visit) error {
	job := v.s.jobs.Find(v.field("job"))
	if job == nil || job.Kind != auditKind {
		return notFound("This audit is not known any more.", "Start another one.")
	}
	if !mayStop(v, job) {
		return &problem{status: 403, what: "Somebody else started this audit.", todo: "They can stop it, and so can an operator."}
	}
	job.Stop(v.person().Name)
	return v.done("/books", "")
}

// mayStop reports whether the person may stop a job: who started it, or an operator.
func mayStop(v *visit, job *jobs.Job) bool {
	return v.may(Operator) || job.By == v.person().Name
}

// busy says why a job was not started; nil stays nil.
func busy(err error) error {
	other, ok := errors.AsType[*jobs.BusyError](err)
	switch {
	case !ok:
		return err
	case other.Job != nil:
		return &problem{status: 409, what: "This runs already: " + other.Job.By + " started it at " + stamp(other.Job.Started) + ". Nothing was started.", todo: "Wait until it ends, or stop it."}
	default:
		return &problem{status: 409, what: "As many jobs as the console runs at once are running. Nothing was started.", todo: "Wait until one ends, or stop one."}
	}
}
