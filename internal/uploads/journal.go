package uploads

import (
	"context"
	"strconv"
	"time"

	"orderpost/internal/journal"
)

// Journaled returns the Journal that writes imports into the fleet's journal. ended is
// told of each act and of the error of its end; the journal may lack a part of it.
func Journaled(j *journal.Journal, ended func(*journal.Act, error)) Journal {
	return func(ctx context.Context, a Act) (func(context.Context, Ended), error) {
		act, err := j.Begin(ctx, intention(a))
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, e Ended) {
			r := journal.Result{End: journal.Done, Counts: e.Counts, Error: e.Error}
			switch {
			case e.State == Interrupted || e.State == Cancelled:
				r.End = journal.Stopped
			case e.State == Failed:
				r.End = journal.Failed
			case e.Partial:
				r.End = journal.Partial
			}
			ended(act, act.End(ctx, r))
		}, nil
	}
}

// intention is what the journal has of an import before it begins.
func intention(a Act) journal.Intention {
	in := journal.Intention{About: journal.About{Kind: journal.Import, Actor: a.By.Actor(), Details: map[string]string{}}}
	detail := func(name, value string) {
		if value != "" {
			in.Details[name] = value
		}
	}
	detail("from", a.By.From)
	detail("file", a.Upload.Source())
	detail("upload", a.Upload.ID)
	if c := a.Upload.Checked; c != nil {
		in.Batch, in.Expected = c.Summary.Batch, map[string]int{"rows": c.Summary.Rows, "invalid": c.Summary.Invalid}
	}
	for name, on := range map[string]bool{"skip_invalid": a.SkipInvalid, "retry_failed": a.RetryFailed} {
		if on {
			detail(name, strconv.FormatBool(on))
		}
	}
	if !a.Deadline.IsZero() {
		detail("deadline", a.Deadline.UTC().Format(time.RFC3339))
	}
	return in
}

// Actor is the person as the journal has them.
func (p Person) Actor() journal.Actor {
	return journal.Actor{Name: p.Name, Known: journal.Known(p.How)}
}
