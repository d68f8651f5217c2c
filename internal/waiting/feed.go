package waiting

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// leaveToMove is the part of the lease's term that is kept for a move itself.
const leaveToMove = 2 * time.Second

// feed moves the next n intents, by turns.
func (f *Feeder) feed(ctx context.Context, n int) error {
	waiting, sources := make(map[order.LaneImport]int), make(map[order.LaneImport][]*source)
	for _, s := range f.sources {
		which := order.LaneImport{Lane: s.Lane, Import: s.Import}
		if n := f.readyOf(s); n > 0 {
			waiting[which], sources[which] = waiting[which]+n, append(sources[which], s)
		}
	}
	until := f.lease.until
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var page []settle.Arrival
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
			page, share = append(page, got...), share-len(got)
			errs = append(errs, err)
		}
	}
	if len(page) == 0 {
		return errors.Join(errs...)
	}
	if !f.lease.held() {
		cancel() // Move gives everything back
	}
	ends, err := f.Queue.Move(ctx, page)
	if f.after(page, ends); err != nil {
		f.unsureAt = time.Now()
	}
	return errors.Join(append(errs, err)...)
}

// after tells the sources what became of their intents.
func (f *Feeder) after(page []settle.Arrival, ends []settle.Move) {
	for i, end := range ends {
		if s := f.sources[page[i].Subject]; s != nil {
			s.moved(page[i], end)
		}
	}
}
