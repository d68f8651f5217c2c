package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// ErrNotJournaled is returned by Begin if the intention could not be written.
// Nothing was done.
var ErrNotJournaled = errors.New("nothing was done, because the journal cannot be written (only hold, cancel and a lower limit go on without it)")

const (
	// saferWait is how long an act that makes things safer waits for the journal.
	saferWait = 3 * time.Second
	// endWait is how long End tries after its program was interrupted, or after the
	// intention could not be written.
	endWait = 5 * time.Second
	// maxText is the longest note or error of an entry, in bytes.
	maxText = 2000
	// maxEntry is the largest entry in bytes, without its subject.
	maxEntry = queue.MaxJournalEntry - 4<<10
)

// Journal writes entries. It is safe for concurrent use.
type Journal struct {
	queue                  *queue.Queue
	host, program, version string
}

// New returns the journal at the queue's broker. program names the command, such
// as "deadletter replay".
func New(q *queue.Queue, program, version string) *Journal {
	host, _ := os.Hostname() // "" if the system has none
	return &Journal{q, host, program, version}
}

// Intention is what a person is about to do.
type Intention struct {
	About
	// Safer reports whether the act makes things safer. Such an act goes on if
	// the intention cannot be written. Begin calls Safer only then. nil = no.
	Safer func(context.Context) bool
}

// Always is the Safer of an act that makes things safer whatever the state is.
func Always(context.Context) bool { return true }

// Act is an act that has begun and must be ended.
type Act struct {
	journal     *Journal
	entry       Entry
	unannounced error
}

// Begin writes an intention. Call it before the act's first effect. If it
// returns an error, the act must not happen: ErrNotJournaled, ErrUnreachable of
// package queue, or ctx's error. An act that makes things safer goes on without
// its intention; see [Act.Unannounced].
func (j *Journal) Begin(ctx context.Context, in Intention) (*Act, error) {
	in.Note = order.Truncate(in.Note, maxText)
	a := &Act{journal: j, entry: Entry{ID: newID(), Step: StepIntention, At: time.Now().UTC(),
		Host: j.host, Program: j.program, Version: j.version, About: in.About}}
	var err error
	if in.Safer != nil {
		brief, cancel := context.WithTimeout(ctx, saferWait)
		err = j.append(brief, &a.entry)
		cancel()
		if err != nil && ctx.Err() == nil && in.Safer(ctx) {
			a.unannounced = err
			return a, nil
		}
	}
	if in.Safer == nil || errors.Is(err, context.DeadlineExceeded) {
		err = j.append(ctx, &a.entry)
	}
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, queue.ErrUnreachable):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", ErrNotJournaled, err)
	}
}

// Continue returns an act that another program began, so that this one ends it.
func (j *Journal) Continue(i *Item) *Act { return &Act{journal: j, entry: i.Entry} }

// ID names the act in the journal.
func (a *Act) ID() string { return a.entry.ID }

// Name names its intention in the journal, for Find.
func (a *Act) Name() string { return a.entry.subject() }

// Unannounced returns why the act's intention is not in the journal; nil = it
// is there.
func (a *Act) Unannounced() error { return a.unannounced }

// End writes the result. Call it after the last effect, also if the act failed
// or was stopped. If ctx has ended, or the intention could not be written, End tries for a
// few seconds only: nobody who has just held the fleet waits for a full disk. Its error
// says that the act happened and that its result is not in the journal.
func (a *Act) End(ctx context.Context, r Result) error {
	if ctx.Err() != nil || a.unannounced != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
	}
	e := a.entry
	r.Counts, r.Error = maps.Clone(r.Counts), order.Truncate(r.Error, maxText)
	maps.DeleteFunc(r.Counts, func(_ string, n int) bool { return n == 0 })
	e.Step, e.At, e.Result, e.Unannounced = StepResult, time.Now().UTC(), &r, a.unannounced != nil
	if err := a.journal.append(ctx, &e); err != nil {
		return fmt.Errorf("the result of act %s (%s, %s) is not in the journal: %w", e.ID, e.Kind, r.End, err)
	}
	return nil
}

// append stores an entry.
func (j *Journal) append(ctx context.Context, e *Entry) error {
	data, err := json.Marshal(e)
	if err == nil && len(data) > maxEntry {
		short := *e
		short.Filter, short.OrderNo, short.Batch = nil, order.Truncate(e.OrderNo, maxText), order.Truncate(e.Batch, maxText)
		short.Details = map[string]string{"shortened": "the filter and the details of this act were too long for the journal"}
		data, err = json.Marshal(&short)
	}
	if err != nil {
		return err
	}
	return j.queue.AppendJournal(ctx, e.subject(), data)
}
