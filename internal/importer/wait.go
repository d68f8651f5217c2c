package importer

import (
	"context"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// rowOf reads the row's number from the name of an import's submission.
func rowOf(id, batch string) (int, bool) {
	rest, ok := strings.CutPrefix(id, batch+":")
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0
}

// Progress is how far the orders of an import are.
type Progress struct {
	// Total is the number of orders that are waited for, Settled of those that
	// have their outcome.
	Total, Settled int
	Outcomes       map[order.Outcome]int
	// Workers that are present; Held: each of them waits, and for this.
	Workers int
	Held    []string
	Elapsed time.Duration
	// Ended: nothing of the import is in the queue any more.
	Ended bool
}

// Rate is the number of orders settled per second.
func (p *Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Settled) / p.Elapsed.Seconds()
}

// Left estimates the time to the end; 0 where it cannot.
func (p *Progress) Left() time.Duration {
	if r := p.Rate(); r > 0 {
		return time.Duration(float64(p.Total-p.Settled) / r * float64(time.Second))
	}
	return 0
}

// follower counts the outcomes of an import's rows, each row once.
type follower struct {
	batch   string
	awaited func(row int) bool
	rows    []order.Outcome
	p       Progress
	last    uint64
}

func newFollower(batch string, rows, total int, after uint64, awaited func(int) bool) *follower {
	return &follower{batch: batch, awaited: awaited, rows: make([]order.Outcome, rows+1), last: after,
		p: Progress{Total: total, Outcomes: make(map[order.Outcome]int)}}
}

func (f *follower) see(r *order.Record) error {
	n, ok := rowOf(r.IntentID, f.batch)
	outcome := r.Outcome()
	if !ok || n >= len(f.rows) || outcome == order.OutcomeNone || !f.awaited(n) {
		return nil
	}
	if had := f.rows[n]; had == order.OutcomeNone {
		f.p.Settled++
	} else {
		f.p.Outcomes[had]-- // proof of acceptance came late
	}
	f.rows[n] = outcome
	f.p.Outcomes[outcome]++
	return nil
}

const (
	// lookEvery is the pace of looking at the results.
	lookEvery = 250 * time.Millisecond
	// idleLooks is the number of looks without news after which the queue is
	// searched for the import's intents: a later one may have taken the place
	// of a row's.
	idleLooks = 40
)

// follow looks at the results until every awaited row is settled, or no intent
// of the import is left. show is told after each look.
func (f *follower) follow(ctx context.Context, q *queue.Queue, show func(Progress)) error {
	begun, idle := time.Now(), 0
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		before := f.p.Settled
		counts, err := q.Count(ctx) // before the results: who is gone by now has one
		if err != nil {
			return err
		}
		if f.last, err = q.RecordsSince(ctx, f.last, f.see); err != nil {
			return err
		}
		f.p.Elapsed = time.Since(begun)
		f.p.Ended = f.p.Settled >= f.p.Total || counts.Pending == 0
		if idle++; f.p.Settled > before {
			idle = 0
		}
		if idle >= idleLooks && !f.p.Ended {
			idle = 0
			left := 0
			if err := q.EachPending(ctx, f.batch, func(page []*settle.Pending) error { left += len(page); return nil }); err != nil {
				return err
			}
			f.p.Ended = left == 0
		}
		if err := f.presence(ctx, q); err != nil {
			return err
		}
		show(f.p)
		if f.p.Ended {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// presence says who is there to do the work, and what keeps them from it.
func (f *follower) presence(ctx context.Context, q *queue.Queue) error {
	workers, err := q.Workers(ctx)
	if err != nil {
		return err
	}
	f.p.Workers, f.p.Held = len(workers), nil
	for _, w := range workers {
		if w.Open {
			f.p.Held = nil
			return nil
		}
		f.p.Held = append(f.p.Held, w.Reasons...)
	}
	return nil
}

// Wait follows the import until each of its rows is settled. show is told of
// the progress a few times a second. It returns the last progress, with the
// context's error where that ended first; the orders go on without us.
func (p *Published) Wait(ctx context.Context, q *queue.Queue, show func(Progress)) (Progress, error) {
	f := newFollower(p.Batch, p.Rows, p.waits, p.after, p.awaited.has)
	err := f.follow(ctx, q, show)
	if err == nil && p.foreign > 0 {
		err = p.waitForOthers(ctx, q)
	}
	return f.p, err
}

// waitForOthers waits for the rows whose orders another import enqueued.
func (p *Published) waitForOthers(ctx context.Context, q *queue.Queue) error {
	tick := time.NewTicker(4 * lookEvery)
	defer tick.Stop()
	for {
		counts, err := q.Count(ctx)
		if err != nil || counts.Pending == 0 {
			return err
		}
		left := 0
		if err := p.f.eachStanding(ctx, q, func(rows []Row, standings []settle.Standing) error {
			for i := range standings {
				if standings[i].Pending != nil || standings[i].Record != nil && standings[i].Record.Outcome() == order.OutcomeNone {
					left++
				}
			}
			return nil
		}); err != nil || left == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch follows an import that another run began.
func Watch(ctx context.Context, q *queue.Queue, imp *queue.Import, show func(Progress)) (Progress, error) {
	total := 0
	for fate, n := range imp.Counts {
		switch Fate(fate) {
		case Stored, Corrected, Retried, AlreadyKnown, AlreadyPending:
			total += n
		}
	}
	f := newFollower(imp.Batch, imp.Rows, total, imp.FirstResult, func(int) bool { return true })
	err := f.follow(ctx, q, show)
	return f.p, err
}
