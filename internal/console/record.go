package console

import (
	"context"
	"strconv"

	"orderpost/internal/journal"
	"orderpost/internal/uploads"
)

// journalUpload writes what a person does with an upload into the journal.
func (s *Server) journalUpload(ctx context.Context, a uploads.Act) (func(context.Context, uploads.Ended), error) {
	in := journal.Intention{About: journal.About{Kind: journal.Kind(a.Kind), Actor: journal.Actor{Name: a.By.Name, Known: journal.Known(a.By.How)}, Batch: a.Batch, Note: a.Note, Details: map[string]string{}}}
	detail := func(name, value string) {
		if value != "" {
			in.Details[name] = value
		}
	}
	detail("from", a.By.From)
	detail("file", a.Upload.Source())
	detail("upload", a.Upload.ID)
	switch in.Kind {
	case journal.Cancel:
		in.Safer = journal.Always
	case journal.Import:
		if c := a.Upload.Checked; c != nil {
			in.Expected = map[string]int{"rows": c.Summary.Rows, "invalid": c.Summary.Invalid}
		}
		for name, on := range map[string]bool{"skip_invalid": a.SkipInvalid, "retry_failed": a.RetryFailed} {
			if on {
				detail(name, strconv.FormatBool(on))
			}
		}
		if !a.Deadline.IsZero() {
			detail("deadline", stamp(a.Deadline))
		}
	}
	act, err := s.journal().Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, e uploads.Ended) {
		r := journal.Result{End: journal.Done, Counts: e.Counts, Error: e.Error}
		switch {
		case e.State == uploads.Interrupted || e.State == uploads.Cancelled:
			r.End = journal.Stopped
		case e.State == uploads.Failed:
			r.End = journal.Failed
		case e.Partial:
			r.End = journal.Partial
		}
		if says := s.unwritten(act, act.End(ctx, r)); says != "" && in.Kind == journal.Cancel {
			s.cancels.lacks(a.Batch, says)
		}
	}, nil
}
