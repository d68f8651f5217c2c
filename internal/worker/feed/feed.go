package feed

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// leaveToMove is the part of the lease's term that is kept for a move itself.
const leaveToMove = 2 * time.Second

// feed moves the next n intents, by turns, and returns how many left.
func (f *Feeder) feed(ctx context.Context, n int) (left int, err error) {
	waiting, sources := make(map[order.LaneImport]int), make(map[order.LaneImport][]*source)
	for _, s := range f.sources {
		which := order.LaneImport{Lane: s.Lane, Import: s.Import}
		if n := f.readyOf(s); n > 0 {
			waiting[which], sources[which] = waiting[which]+n, append(sources[which], s)
		}
	}
	until := f.lease.Until()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var groups []settle.WaitingGroup
	var errs []error
	for which, share := range f.turns.Take(min(n, mostAtOnce), waiting, f.weights) {
		if time.Until(until) < leaveToMove { // many small imports are read one after the other
			break
		}
		sortSources(sources[which])
		for _, s := range sources[which] {
			if share <= 0 {
				break
			}
			got, err := s.take(ctx, f.Queue, min(share, s.ready()))
			got = f.approved(s, got)
			if errs = append(errs, err); len(got.Messages) > 0 {
				groups, share = append(groups, got), share-len(got.Messages)
			}
		}
	}
	if len(groups) == 0 {
		return 0, errors.Join(errs...)
	}
	if !f.lease.Held() {
		cancel() // Move moves nothing
	}
	_, left, err = f.move(ctx, groups...)
	f.drained = f.ready() == 0 && left > 0
	return left, errors.Join(append(errs, err)...)
}

// move moves or withdraws intents, and tells the sources what became of theirs. It returns how many left.
func (f *Feeder) move(ctx context.Context, groups ...settle.WaitingGroup) (ends []settle.Move, left int, err error) {
	for i := range groups {
		groups[i].Birth = f.birth
	}
	ends, err = f.Queue.Mover.Move(ctx, groups...)
	next := ends
	for _, g := range groups {
		for _, m := range g.Messages {
			if s := f.sources[m.Subject]; s != nil {
				s.moved(m, next[0])
			}
			if next[0].Leaves() {
				left++
			}
			next = next[1:]
		}
	}
	return ends, left, err
}
