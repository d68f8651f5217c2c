package feed

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/queue"
)

// list finds out what is ready to be fed.
func (f *Feeder) list(ctx context.Context) error {
	now := time.Now()
	if f.approvals.changed.Swap(false) {
		f.listNow() // what is long due is ready at once
	}
	if now.Sub(f.listed) < listEvery && !f.drained {
		return nil
	}
	list, total, err := f.Queue.Waiting.Now(ctx)
	if err != nil {
		return err
	}
	if total > count(list) { // some have a time
		due, err := f.due(ctx, now, f.reached())
		if err != nil {
			return err
		}
		timed, err := f.cancelledTimed(ctx)
		if err != nil {
			return err
		}
		list = append(append(list, due...), timed...)
	}
	if now.Sub(f.paced) >= paceEvery || f.drained && total > 0 { // what comes first must not be fed by an old limit
		if err := f.measureFleet(ctx); err != nil {
			return err
		}
	}
	if birth := f.Queue.Waiting.Birth(); birth != f.birth { // it was made again: begin at its first intents
		clear(f.sources)
		f.birth, f.unlisted = birth, unlisted{}
	}
	f.adopt(list, now)
	f.listed, f.drained = now, total == 0
	if now.Sub(f.summed) < sumEvery {
		return nil
	}
	f.summed = now
	f.mine.Lanes, err = f.Queue.Waiting.LanesOf(ctx, list, now, f.held)
	return err
}

// listNow makes the next round list anew.
func (f *Feeder) listNow() { f.listed, f.swept = time.Time{}, time.Time{} }

func count(list []queue.Waiting) (n int) {
	for _, w := range list {
		n += w.Count
	}
	return n
}

// clockTold is how far this machine's clock is ahead of the broker's when the log says so.
const clockTold = 5 * time.Second

// reached returns the time that both this machine's clock and the broker's have reached. A
// clock that is ahead would send orders before their time.
func (f *Feeder) reached() time.Time {
	now, broker := f.now().Round(0), f.Queue.Waiting.Clock()
	if broker.IsZero() {
		return now
	}
	ahead := now.Sub(broker).Round(time.Second)
	off := ahead > clockTold
	if off && !f.clockOff {
		f.Log.Warn().Stringer("ahead", ahead).Msg("this machine's clock is ahead of the broker's: orders that wait for a time wait until it has come by both")
	}
	if f.clockOff = off; now.Before(broker) {
		return now
	}
	return broker
}

// due lists what waited for a time that has come. The present minute and the one
// before are listed every time, earlier ones now and then. reached is the time that has come.
func (f *Feeder) due(ctx context.Context, now, reached time.Time) (list []queue.Waiting, err error) {
	for _, at := range []time.Time{reached.Add(-time.Minute), reached} {
		minute, err := f.Queue.Waiting.InMinute(ctx, at)
		if err != nil {
			return nil, err
		}
		for _, w := range minute {
			if !w.At.After(reached) {
				list = append(list, w)
			}
		}
	}
	before := reached.Truncate(time.Minute).Add(-time.Minute)
	known := f.overdue(before)
	ready := func(w queue.Waiting) bool { return f.readyOf(f.sources[w.Subject]) > 0 }
	if now.Sub(f.swept) < sweepEvery && (!f.more || slices.ContainsFunc(known, ready)) {
		known, err := f.recount(ctx, known)
		return append(list, known...), err
	}
	return f.sweep(ctx, list, before, now)
}

// sweep adds the subjects of times that are long past to a list. Those that are held
// are left out, and those that are known and blocked do not count, so neither keeps
// the others waiting.
func (f *Feeder) sweep(ctx context.Context, list []queue.Waiting, before, now time.Time) ([]queue.Waiting, error) {
	left := mostDue
	f.more = false
	next, err := f.Queue.Waiting.Overdue(ctx, before, f.sweepFrom, func(w queue.Waiting) bool {
		if f.held(w.Import) {
			return true
		}
		if s := f.sources[w.Subject]; s == nil || s.ready() > 0 {
			if left--; left < 0 {
				f.more = true
				return false
			}
		}
		list = append(list, w)
		return true
	})
	if err != nil {
		return nil, err
	}
	f.swept, f.sweepFrom = now, next
	return list, nil
}

// mostRecounts bounds how many subjects are counted at a listing.
const mostRecounts = 8

// recount counts again, of the overdue subjects, some of which nothing can be had: they
// are blocked, or somebody withdrew them since the sweep.
func (f *Feeder) recount(ctx context.Context, known []queue.Waiting) (list []queue.Waiting, err error) {
	left := mostRecounts
	for _, w := range known {
		if s := f.sources[w.Subject]; s.ready() == 0 && left > 0 {
			left--
			if w.Count, err = f.Queue.Waiting.Under(ctx, w.Subject); err != nil {
				return nil, err
			}
		}
		if w.Count > 0 {
			list = append(list, w)
		}
	}
	return list, nil
}

// overdue returns the subjects of an earlier sweep that are not done.
func (f *Feeder) overdue(before time.Time) (list []queue.Waiting) {
	for _, s := range f.sources {
		if !s.At.IsZero() && s.At.Before(before) && s.Count > 0 {
			list = append(list, s.Waiting)
		}
	}
	return list
}

// adopt keeps the sources that are listed.
func (f *Feeder) adopt(list []queue.Waiting, now time.Time) {
	keep := make(map[string]*source, len(list))
	for _, w := range list {
		s := f.sources[w.Subject]
		if s == nil {
			s = &source{}
		}
		s.refresh(w, now)
		keep[w.Subject] = s
	}
	f.sources = keep
}

// ready counts what may be fed.
func (f *Feeder) ready() (n int) {
	for _, s := range f.sources {
		n += f.readyOf(s)
	}
	return n
}
