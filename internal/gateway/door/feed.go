package door

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Outcomes yields the outcome of every submission that the results hold after a position,
// oldest first, and then each as it is stored, until ctx ends. 0 is the beginning.
//
// Each comes at least once: whoever keeps Outcome.Position and goes on after it misses
// none. A record that is replaced before it is read comes once, as it is then. While the
// broker is out of reach, Outcomes waits. It yields an error as its last value: ErrPosition,
// ErrClosed, or the broker's refusal.
func (d *Door) Outcomes(ctx context.Context, after uint64) iter.Seq2[Outcome, error] {
	return func(yield func(Outcome, error) bool) {
		f := &feed{d: d, after: after, yield: yield, run: d.follow.enter()}
		defer d.follow.leave()
		// A broker that is out of reach is waited for, and behind a closed door it stays so.
		untilClosed, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(d.ctx, cancel)()
		err := f.serve(untilClosed)
		if d.ctx.Err() != nil && untilClosed.Err() != nil && !errors.Is(err, errStopped) {
			err = ErrClosed
		}
		if !errors.Is(err, errStopped) && ctx.Err() == nil {
			yield(Outcome{}, err)
		}
	}
}

// errStopped means that the reader wants no more.
var errStopped = errors.New("stopped")

// feed is one reader of all outcomes.
type feed struct {
	d     *Door
	run   *run
	after uint64
	yield func(Outcome, error) bool
}

// serve returns why it ended.
func (f *feed) serve(ctx context.Context) error {
	if err := f.d.awaits(ctx, f.run.ready); err != nil {
		return err
	}
	if err := f.begin(ctx); err != nil {
		return err
	}
	for {
		page, from, news, remade := f.d.follow.since(f.run, f.after)
		err := f.passAll(page)
		switch {
		case err == nil && remade:
			err = fmt.Errorf("%w: they were made anew", ErrPosition)
		case err == nil && f.after < from:
			err = f.catchUp(ctx, from)
		case err == nil && len(page) == 0:
			err = f.d.awaits(ctx, news)
		}
		if err != nil {
			return err
		}
	}
}

// begin refuses a position that cannot be true.
func (f *feed) begin(ctx context.Context) error {
	if f.after == 0 {
		return nil
	}
	last, err := queue.LastResult(ctx, f.d.q)
	if err == nil && f.after > last {
		return fmt.Errorf("%w: %d, they end at %d", ErrPosition, f.after, last)
	}
	return f.d.readError(err)
}

// catchUps is how many feeds of a door read the stream at the same time. More would share what the
// broker gives, and each read must end in time.
const catchUps = 4

// catchUp reads one page of the stream, because the follower has nothing up to from.
func (f *feed) catchUp(ctx context.Context, from uint64) error {
	page, err := f.nextPage(ctx)
	for _, m := range page {
		if err := f.pass(&entry{msg: m}); err != nil {
			return err
		}
	}
	switch {
	case len(page) > 0:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && !f.d.q.MayLag():
		f.after = from // nothing else is stored up to there
		return nil
	case err != nil && !f.d.q.Conn.OutOfReach(err):
		return err
	default: // a replica that lags, or an outage
		return settle.Sleep(ctx, lookEvery)
	}
}

// nextPage reads the page after f.after when it is this feed's turn; none = the stream ends there.
func (f *feed) nextPage(ctx context.Context) (page []*settle.Message, err error) {
	select {
	case f.d.catchUps <- struct{}{}:
		defer func() { <-f.d.catchUps }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err = f.d.q.Results().Walk(ctx, f.after+1, queue.ToTheEnd, func(first []*settle.Message) error {
		page = first
		return errStopped
	})
	return page, err
}

func (f *feed) passAll(page []*entry) error {
	for _, e := range page {
		if err := f.pass(e); err != nil {
			return err
		}
	}
	return nil
}

// pass yields the outcomes of one record. It leaves out notes, and records that this
// version cannot read.
func (f *feed) pass(e *entry) error {
	f.after = e.msg.Seq
	if r := e.read(); r.Record != nil && !queue.Kept(e.msg) {
		for _, o := range outcomesIn(r) {
			if !f.yield(o, nil) {
				return errStopped
			}
		}
	}
	return nil
}

// since returns the records after a sequence, or none if that is before from: the follower has every record
// after from. news is closed when there are more. remade says that the results were made anew during the run.
func (f *follower) since(r *run, seq uint64) (page []*entry, from uint64, news <-chan struct{}, remade bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.recent.after(seq), r.recent.from, r.news, r.remade
}

// End returns the position of the newest record: Outcomes after it yields only what is
// stored from now on. Errors: ErrUnavailable, ErrClosed, ctx's.
func (d *Door) End(ctx context.Context) (uint64, error) {
	last, err := queue.LastResult(ctx, d.q)
	return last, d.readError(err)
}
