package fileimport

import (
	"context"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/gateway/door"
	"orderpost/internal/platform/jobs"
)

func cancelKey(id string) string { return "cancel " + id }

// Cancel implements door.Files. It removes the file of an import of which nothing was stored.
func (i *Imports) Cancel(ctx context.Context, id string, by journal.Actor) (door.Import, error) {
	person := uploads.Person{Name: by.Name, How: string(by.Known)}
	if err := i.desk.Leave(id); err != nil {
		return door.Import{}, refusal(err)
	}
	if err := i.stopCheck(ctx, id, person); err != nil {
		return door.Import{}, refusal(err)
	}
	l, err := i.desk.Look(id)
	if err != nil {
		return door.Import{}, refusal(err)
	}
	if l.Import == nil { // nothing was stored
		out, err := i.Look(id)
		if err == nil {
			err = i.desk.Remove(id, "")
		}
		if uploads.KindOf(err) == uploads.Busy { // storing has just begun
			return i.Cancel(ctx, id, by)
		}
		out.State = door.Cancelled
		return out, err
	}
	err = i.join(ctx, jobs.Spec{Kind: "cancel", Title: "Cancel import " + id, By: by.Name, Key: cancelKey(id), Unbounded: true}, func(ctx context.Context, _ *jobs.Job) (any, error) {
		return i.withdraw(ctx, l.Import.Batch, person)
	})
	if err != nil {
		return door.Import{}, err
	}
	return i.Look(id)
}

// stopCheck stops the check of an import. Storing is stopped by the withdrawal itself.
func (i *Imports) stopCheck(ctx context.Context, id string, by uploads.Person) error {
	if j := i.desk.Job(id); j == nil || j.Kind != uploads.CheckKind {
		return nil
	}
	return i.desk.Stop(ctx, id, by, "")
}

// withdraw cancels a batch. The journal has who did it.
func (i *Imports) withdraw(ctx context.Context, batch string, by uploads.Person) (c imports.Cancelled, err error) {
	about := journal.About{Kind: journal.Cancel, Batch: batch, Actor: by.Actor()}
	act, err := i.journal.Begin(ctx, journal.Intention{About: about, Safer: journal.Always})
	if err != nil {
		return c, err
	}
	err = i.queue.Conn.UnlessRefused(ctx, func(ctx context.Context) (err error) {
		c, err = i.desk.CancelBatch(ctx, batch, by)
		return err
	})
	r := journal.Result{End: journal.Done, Counts: c.Counts()}
	switch {
	case err != nil:
		r.End, r.Error = journal.Failed, err.Error()
	case c.Left() != "":
		r.End = journal.Partial
	}
	i.unwritten(act, act.End(ctx, r))
	return c, err
}
