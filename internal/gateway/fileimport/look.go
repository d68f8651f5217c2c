package fileimport

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/gateway/door"
	"orderpost/internal/platform/jobs"
)

// stateOf returns the state of an import that nobody withdraws.
func stateOf(l *uploads.Look) string {
	switch imp := l.Import; {
	case imp != nil:
		return map[uploads.State]string{uploads.Running: door.Storing, uploads.Done: door.AllStored, uploads.Interrupted: door.Interrupted, uploads.Failed: door.Failed, uploads.Cancelled: door.Cancelled}[imp.State]
	case l.Checked != nil && l.Checked.Wrong():
		return door.Refused
	case l.Failure != nil:
		return door.Failed
	case l.Checked != nil:
		return door.Storing
	default:
		return door.Checking
	}
}

// Look implements door.Files.
func (i *Imports) Look(id string) (door.Import, error) {
	l, err := i.desk.Look(id)
	if err != nil {
		return door.Import{}, refusal(err)
	}
	out := door.Import{ID: l.ID, By: l.By.Name, State: stateOf(&l), ReceivedAt: l.At}
	if c := l.Checked; c != nil {
		out.Batch, out.Rows, out.Invalid = c.Summary.Batch, c.Summary.Rows, c.Summary.Invalid
		for _, bad := range c.Bad {
			out.Bad = append(out.Bad, badRow(bad))
		}
		if out.State == door.Refused {
			out.Why = why(&l)
		}
	}
	if l.Job != nil {
		p := l.Job.Progress()
		out.Progress = &door.Progress{Step: cmp.Or(p.Step, "waiting"), Percent: p.Percent(), Hindrance: p.Hindrance}
	}
	if run := l.Import; run != nil {
		out.Batch, out.Error = run.Batch, run.Error
		if run.State != uploads.Running {
			out.Fates = run.Summary.Counts()
		}
	} else if l.Failure != nil {
		out.Error = l.Failure.Error()
	}
	i.withdrawal(&out)
	if out.State == door.AllStored && !i.counted(id).final {
		out.Held = i.held(out.Batch)
	}
	return out, nil
}

// heldTime bounds the look at what holds an import. The answer goes without it then.
const heldTime = time.Second

// held says what keeps the waiting orders of an import where they are; "" = nothing, or it
// is not known now.
func (i *Imports) held(batch string) string {
	ctx, cancel := context.WithTimeout(context.Background(), heldTime)
	defer cancel()
	hold, err := imports.HeldBy(ctx, i.queue, batch)
	if err != nil {
		return ""
	}
	return approval.Describe(hold, batch)
}

// withdrawal adds what a withdrawal by this process has come to.
func (i *Imports) withdrawal(out *door.Import) {
	job := i.jobs.Last(cancelKey(out.ID))
	if job == nil {
		return
	}
	if job.State() == jobs.Running {
		out.State = door.Cancelling
	} else if result, err := job.Result(); err == nil {
		c, _ := result.(imports.Cancelled)
		out.Withdrawn = &door.Withdrawn{Cancelled: c.Withdrawn, Started: c.Started, Open: c.Open}
	}
}

func badRow(bad uploads.BadRow) door.BadRow {
	out := door.BadRow{Line: bad.Line, Column: bad.Column, Place: bad.Place, Name: bad.Name, Value: bad.Value, Code: string(bad.Code), Detail: bad.Message}
	if bad.Accept != "" {
		out.Accept = []string{bad.Accept + "=" + string(bad.Code)}
		if bad.Or != "" {
			out.Accept = append(out.Accept, bad.Accept+"="+string(bad.Or))
		}
	}
	return out
}

// why says what is wrong with a file that is not imported. The importer calls the file by the
// client's name, which says nothing to the client.
func why(l *uploads.Look) *door.FileError {
	c := l.Checked
	if c.Stopped != "" {
		return &door.FileError{Kind: door.FileUnusable, Where: "file", Seen: uploads.Unnamed(l.Source(), c.Stopped), Do: "correct the file, and send it again"}
	}
	where := ""
	if len(c.Bad) > 0 {
		where = cell(c.Bad[0].Line, c.Bad[0].Column)
	}
	return &door.FileError{Kind: door.FileUnusable, Where: where, Seen: fmt.Sprintf("%d of %d rows cannot be sent", c.Summary.Invalid, c.Summary.Rows),
		Do: "correct them, or answer their questions with the parameter accept, and send the file again"}
}

// cell names a cell, or a line if column is 0.
func cell(line, column int) string {
	if column == 0 {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("line %d, column %d", line, column)
}

// count is how many rows of an import had which outcome.
type count struct {
	tally importer.Tally
	at    time.Time
	took  time.Duration
	final bool
}

const (
	// countEvery is how old a count may be, at least, and countShare how much of the time
	// counting takes at most: it reads the whole file.
	countEvery = time.Second
	countShare = 10
)

// fresh reports whether a count need not be made again yet.
func (c count) fresh() bool {
	return c.final || time.Since(c.at) < max(countEvery, countShare*c.took)
}

// Outcomes implements door.Files. A count may be ten times as old as it took.
func (i *Imports) Outcomes(ctx context.Context, id string) (map[string]int, error) {
	if c := i.counted(id); c.fresh() {
		return c.tally, nil
	}
	err := i.join(ctx, jobs.Spec{Kind: "count", Title: "Count outcomes of import " + id, Key: "count " + id, Unbounded: true}, func(ctx context.Context, _ *jobs.Job) (any, error) {
		return nil, i.count(ctx, id)
	})
	return i.counted(id).tally, err
}

func (i *Imports) counted(id string) count {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[id]
}

// count counts the outcomes of an import.
func (i *Imports) count(ctx context.Context, id string) error {
	before, err := i.Look(id)
	if err != nil {
		return err
	}
	began := time.Now()
	tally, err := i.desk.Count(ctx, id, nil)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.counts[id] = count{tally, time.Now(), time.Since(began), tally.Open() == 0 && before.State == door.AllStored}
	i.forget()
	return nil
}

// forget drops the counts of imports that are gone. The caller holds mu.
func (i *Imports) forget() {
	maps.DeleteFunc(i.counts, func(id string, _ count) bool {
		_, err := i.store.Get(id)
		return err != nil
	})
}

// Results implements door.Files.
func (i *Imports) Results(ctx context.Context, id string, w io.Writer) error {
	if _, err := i.desk.Results(ctx, id, w); err != nil {
		return refusal(err)
	}
	return nil
}
