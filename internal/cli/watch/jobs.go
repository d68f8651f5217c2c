package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/files/folder"
	"orderpost/internal/files/importer"
	"orderpost/internal/settle"
)

// What a job keeps of the flags: it is imported as it began, whatever they are later.
const (
	keptFlags   = "flags"
	keptMapping = "mapping"
)

// jobs imports and moves what was taken, one file after the other, until ctx ends. What fails
// is tried again, and the files behind it wait: they may be corrections.
func (u *unit) jobs(ctx context.Context, taken <-chan struct{}) {
	log := u.logger()
	wait := u.pace.first
	for ctx.Err() == nil {
		var err error
		for _, j := range u.f.Open() {
			if err = u.carry(ctx, j); err != nil {
				if ctx.Err() == nil {
					log.once(u.called(j.Name), err.Error()+"; this is tried again, and what came later waits")
				}
				break
			}
			log.once(u.called(j.Name), "")
			wait = u.pace.first
		}
		if err != nil {
			_ = settle.Sleep(ctx, wait)
			wait = min(2*wait, u.pace.longest)
			continue
		}
		select {
		case <-taken:
		case <-ctx.Done():
		}
	}
}

// carry takes the steps of a job that are left.
func (u *unit) carry(ctx context.Context, j *folder.Job) error {
	if j.Stored == "" && j.Why == "" {
		if err := u.store(ctx, j); err != nil {
			return err
		}
	}
	if !j.Placed {
		if err := j.Place(); err != nil {
			return err
		}
	}
	if j.Why == "" {
		return nil
	}
	u.log.Warn().Str("file", u.called(j.Name)).Str("to", u.called(j.Target)).Msg(cli.Printable("refused: " + j.Why))
	return j.End()
}

// store imports a file, or finds out that it cannot be imported.
func (u *unit) store(ctx context.Context, j *folder.Job) error {
	flags, err := parseFlags(j.Kept[keptFlags], u.when, j.TakenAt, func(string) ([]byte, error) { return []byte(j.Kept[keptMapping]), nil })
	if err == nil {
		err = j.Aim()
	}
	if err != nil {
		return err
	}
	one, err := u.open(j)
	if err != nil {
		return err
	}
	defer func() { _ = one.content.Close() }()
	one.flags = flags
	var batch, says string
	err = u.f.Step("import", func() error {
		batch, says, err = one.load(ctx)
		return err
	})
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return j.Refuse(refused.why)
	}
	// What is done but for some rows is done: the results name them.
	if err != nil {
		return err
	}
	u.log.Info().Str("file", u.called(j.Name)).Str("batch", batch).Msg(cli.Printable(says))
	return j.Store(batch)
}

// lookShare bounds what looking for results takes: one part in so many of the time.
const lookShare = 20

// due says when a job's results are looked for.
type due struct {
	at    time.Time
	pause time.Duration
}

// results writes the results of files whose orders all have their outcome, until ctx ends. A file
// whose import was refused goes back to the jobs, to be moved.
func (u *unit) results(ctx context.Context, recalled chan<- struct{}) {
	log := u.logger()
	when := make(map[*folder.Job]due)
	for ctx.Err() == nil {
		for _, j := range u.f.Placed() {
			d, known := when[j]
			if !known {
				d = due{time.Now().Add(u.pace.first), u.pace.first}
			}
			when[j] = d
			if time.Now().Before(d.at) || ctx.Err() != nil {
				continue
			}
			began := time.Now()
			err := u.finish(ctx, j)
			switch {
			case err == nil:
				log.once("results of "+u.called(j.Target), "")
				delete(when, j)
				if j.Why != "" {
					wake(recalled)
				}
				continue
			case errors.Is(err, errUnsettled) || ctx.Err() != nil:
			default:
				log.once("results of "+u.called(j.Target), err.Error()+"; this is tried again")
			}
			d.pause = max(min(2*d.pause, u.pace.longest), lookShare*time.Since(began)) // a look reads what is pending, and perhaps all rows
			when[j] = due{time.Now().Add(d.pause), d.pause}
		}
		_ = settle.Sleep(ctx, u.pace.look)
	}
}

// finish writes the results of one file.
func (u *unit) finish(ctx context.Context, j *folder.Job) error {
	one, err := u.open(j)
	if err != nil {
		return err
	}
	defer func() { _ = one.content.Close() }()
	why, err := refusal(ctx, u.q, j.Stored)
	if err != nil {
		return err
	}
	if why != "" {
		if _, err := one.writeResults(ctx, j.Beside); err != nil {
			return err
		}
		return j.Recall(why)
	}
	changed := false
	tally, err := one.writeResults(ctx, func(ending string, fill func(io.Writer) error) (err error) {
		changed, err = j.Finish(ending, fill)
		return err
	})
	if errors.Is(err, errForgotten) {
		changed, err = j.Finish(folder.WhyEnding, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "There are no results of import %s: %v.\n", j.Stored, err)
			return err
		})
	}
	if err != nil {
		return err
	}
	if changed {
		u.log.Error().Str("file", u.called(j.Target)).Str("batch", j.Stored).
			Msg("it has changed since it was taken, and what was changed is not imported; if that is new orders, move the file back into the folder")
	}
	e := u.log.Info().Str("file", u.called(j.Target)).Str("batch", j.Stored)
	for _, word := range importer.Words() {
		if n := tally[word]; n > 0 {
			e.Int(word, n)
		}
	}
	e.Msg("results are there")
	return nil
}
