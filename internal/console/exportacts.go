package console

import (
	"context"
	"io"
	"slices"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/files/importer"
	"orderpost/internal/platform/jobs"
)

const exportTitle = "Export dead letters"

// planExport looks at what a file of the letters would hold. The job's page has the
// buttons that save it.
func planExport(v *visit) error {
	p, err := readPlan(v, journal.Export)
	if p == nil {
		return err
	}
	return startPreview(v, p, exportTitle, func(ctx context.Context, job *jobs.Job) (any, error) {
		of, err := v.s.lettersOf(ctx, p)
		if err != nil {
			return deadletter.Survey{}, err
		}
		return deadletter.Look(ctx, v.s.queue, p.Group, func(s deadletter.Survey) {
			job.Tell(jobs.Progress{Step: count(s.Orders) + " to export", Done: int64(s.Seen), Of: int64(max(of, s.Seen))})
		})
	})
}

// exportPage is what the page of a preview shows of an export.
type exportPage struct {
	deadletter.Survey
	// Why are the reasons for orders that one of the formats cannot hold.
	Why []string
	// Mark is that of the survey.
	Mark string
	// MaySave: the person may save the file.
	MaySave bool
}

// LeftOfCSV is the number of orders that CSV cannot hold.
func (e *exportPage) LeftOfCSV() int { return e.Left + e.Orders - e.Flat }

// exporting fills in what an export would hold.
func (p *jobPage) exporting(v *visit, s deadletter.Survey) {
	e := &exportPage{Survey: s, Mark: surveyMark(p.Job, s), Why: slices.Clone(s.Errors), MaySave: p.State() == jobs.Done && s.Orders > 0 && v.may(Importer)}
	if n := s.Columns.Odd(); n > 0 {
		e.Why = append(e.Why, plural(n, "order has", "orders have")+" other fields than the rest. CSV cannot hold them together: filter for them, and export them on their own.")
	}
	p.Export, p.Tone = e, "info"
	switch {
	case s.Orders > 0:
		p.Says = plural(s.Orders, "order can", "orders can") + " be saved. The dead letters stay."
	case s.Left > 0:
		p.Tone, p.Says = "warn", "None of these letters has an order that a file could hold."
	default:
		p.Tone, p.Says = "warn", "No dead letter matches, so there is nothing to save."
	}
}

// surveyMark is the mark of what an export would hold.
func surveyMark(job *jobs.Job, s deadletter.Survey) string {
	return previewMark(job, map[string]int{"orders": s.Orders, "left": s.Left, "flat": s.Flat})
}

// saveExport streams the file.
func saveExport(v *visit, job *jobs.Job) error {
	p, _ := job.Subject.(*plan)
	result, _ := job.Result()
	survey, surveyed := result.(deadletter.Survey)
	format := v.field("format")
	switch {
	case p == nil || p.act != journal.Export || job.State() != jobs.Done || !surveyed:
		return badRequest("This is no export that was looked at to its end.", "Look at the job's page.")
	case format != "ndjson" && format != "csv":
		return badRequest("Orders are saved as NDJSON or CSV, and as nothing else.", "Choose one of the buttons.")
	}
	if err := v.asSeen(surveyMark(job, survey), "This is not the export that you have looked at."); err != nil {
		return err
	}
	about := p.about(deadletter.Tally{}, "")
	about.Expected = map[string]int{"exported": survey.Orders}
	about.Details["format"] = format
	name := "dead-letters-" + time.Now().UTC().Format("2006-01-02-1504") + "." + format
	sent, err := handOut(v, about, name, func(w io.Writer) (map[string]int, error) {
		to := deadletter.NDJSON(w)
		if format == "csv" {
			to = deadletter.Sheet(w, survey.Columns, importer.EscapeFormula)
		}
		written, left, err := deadletter.Export(v.Context(), v.queue(), p.Group, to, nil)
		return map[string]int{"exported": written, "left out": left}, err
	})
	if !sent && err == nil {
		err = stale("The dead letters are gone since you looked, so there is nothing to save.")
	}
	return err
}
