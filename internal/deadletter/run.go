package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"orderpost/internal/audit/journal"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// together is the number of letters that are worked on at the same time. Each waits
	// for the broker's disk, which handles concurrent writes together.
	together = 16
	// maxErrors bounds the errors that a tally keeps. It counts all.
	maxErrors = 20
	// endTime is how long a letter in the middle of a deed may take after its run was
	// stopped.
	endTime = 5 * time.Second
)

// Options say how a group is gone through.
type Options struct {
	// Pace bounds the letters per second; nil = no bound.
	Pace *rate.Limiter
	// Limit is the largest number of letters; 0 = all.
	Limit int
	// Tell is called after each page; nil = nobody wants to know.
	Tell func(Tally)
	// Did is called for each letter with which the deed was done, or in a preview would be;
	// nil = nobody wants to know. Calls of Run come from several goroutines.
	Did func(*settle.Letter)
}

// Tally counts the letters of a group by fate.
type Tally struct {
	Fates map[Fate]int
	// Errors are the first errors, by order number. Fates counts all as Unsettled.
	Errors []string
	// Seen counts the letters that were looked at, also those of other groups.
	Seen uint64
}

// Matching returns the number of letters that belong to the group.
func (t Tally) Matching() (n int) {
	for _, k := range t.Fates {
		n += k
	}
	return n
}

// Stayed returns the number of letters that are still there.
func (t Tally) Stayed(d Deed) (n int) {
	for fate, k := range t.Fates {
		if d.Stays(fate) {
			n += k
		}
	}
	return n
}

// Counts returns the fates as the journal keeps them.
func (t Tally) Counts() map[string]int {
	out := make(map[string]int, len(t.Fates))
	for fate, n := range t.Fates {
		out[string(fate)] = n
	}
	return out
}

// Result is what the journal keeps of a run. err is Run's.
func (t Tally) Result(ctx context.Context, d Deed, err error) journal.Result {
	r := journal.Result{End: journal.Done, Counts: t.Counts()}
	switch {
	case err != nil && ctx.Err() != nil:
		r.End, r.Error = journal.Stopped, "stopped in the middle"
	case err != nil:
		r.End, r.Error = journal.Failed, err.Error()
	case t.Stayed(d) > 0:
		r.End, r.Error = journal.Partial, fmt.Sprintf("%d dead letters stayed", t.Stayed(d))
	}
	return r
}

// errEnough ends a walk at Options.Limit.
var errEnough = errors.New("enough")

// errNoRecord is noted for a letter whose record a preview could not read.
var errNoRecord = fmt.Errorf("its record could not be read: %w", settle.ErrUnreadable)

// run is the state of one Run or Preview.
type run struct {
	deed Deed
	o    Options
	left int

	mu    sync.Mutex
	tally Tally
}

// Preview counts what Run would do now, and changes nothing.
func Preview(ctx context.Context, q *queue.Queue, g Group, d Deed, o Options) (Tally, error) {
	r := newRun(d, o)
	return r.walk(ctx, q, g, r.preview)
}

// Run does the deed with every letter of the group. It goes on after a letter that
// fails, and ends with an error if the broker stays out of reach or ctx ends. A run
// that ended early can be repeated.
func Run(ctx context.Context, q *queue.Queue, g Group, d Deed, o Options) (Tally, error) {
	r := newRun(d, o)
	return r.walk(ctx, q, g, r.act)
}

func newRun(d Deed, o Options) *run {
	return &run{deed: d, o: o, left: o.Limit, tally: Tally{Fates: make(map[Fate]int)}}
}

func (r *run) walk(ctx context.Context, q *queue.Queue, g Group, visit func(context.Context, []*settle.Letter) error) (Tally, error) {
	err := g.Walk(ctx, q, func(page []*settle.Letter, seen int) error {
		var enough error
		if r.o.Limit > 0 && len(page) >= r.left {
			page, enough = page[:r.left], errEnough
		}
		r.left -= len(page)
		err := visit(ctx, page)
		r.mu.Lock()
		r.tally.Seen += uint64(seen)
		r.mu.Unlock()
		if r.o.Tell != nil {
			r.o.Tell(r.now())
		}
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		return cmp.Or(err, enough)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return r.now(), err
}

// now returns a copy of the tally.
func (r *run) now() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tally
	t.Fates = maps.Clone(t.Fates)
	t.Errors = append([]string(nil), t.Errors...)
	return t
}

// act does the deed with the letters of a page, some at the same time.
func (r *run) act(ctx context.Context, page []*settle.Letter) error {
	page, err := r.sift(ctx, page)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(together)
	whole, done := toTheEnd(ctx)
	defer done()
	var end error
	for _, l := range page {
		if end = ctx.Err(); end != nil {
			break // between two letters, never in the middle of one
		}
		if r.o.Pace != nil {
			if end = r.o.Pace.Wait(ctx); end != nil {
				break
			}
		}
		all.Go(func() error {
			fate, err := r.deed.do(whole, l)
			r.note(l, fate, err)
			if fate == r.deed.Does && err == nil && r.o.Did != nil {
				r.o.Did(l)
			}
			if errors.Is(err, queue.ErrUnreachable) { // the queue has waited long enough
				return err
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), end)
}

// sift notes the letters of a page for which a look is enough, and returns the others.
func (r *run) sift(ctx context.Context, page []*settle.Letter) (others []*settle.Letter, err error) {
	if r.deed.settledByLook == nil || len(page) == 0 {
		return page, nil
	}
	fates, err := r.deed.look(ctx, page)
	if err != nil {
		return nil, err
	}
	for i, l := range page {
		if slices.Contains(r.deed.settledByLook, fates[i]) {
			r.note(l, fates[i], nil)
		} else {
			others = append(others, l)
		}
	}
	return others, nil
}

// toTheEnd returns a context that ends a while after ctx: a letter in the middle of
// a deed comes to its end when a person stops the run.
func toTheEnd(ctx context.Context) (whole context.Context, done func()) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endTime, cancel) })
	return whole, func() { stop(); cancel() }
}

// preview counts what act would do.
func (r *run) preview(ctx context.Context, page []*settle.Letter) error {
	fates, err := r.deed.look(ctx, page)
	if err != nil {
		return err
	}
	for i, fate := range fates {
		if fate == Unsettled {
			r.note(page[i], fate, errNoRecord)
			continue
		}
		r.note(page[i], fate, nil)
		if fate == r.deed.Does && r.o.Did != nil {
			r.o.Did(page[i])
		}
	}
	return nil
}

func (r *run) note(l *settle.Letter, fate Fate, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.tally.Fates[fate]++
		return
	}
	r.tally.Fates[Unsettled]++
	if len(r.tally.Errors) < maxErrors {
		r.tally.Errors = append(r.tally.Errors, fmt.Sprintf("order %q: %v", l.OrderNo, err))
	}
}
