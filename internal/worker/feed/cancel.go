package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// cancelFor bounds how long one round withdraws what people cancelled. Then other imports
// have their turn.
const cancelFor = time.Second

// cancel withdraws what people cancelled, whether its import is paused, its time has come or
// the queue has room.
func (f *Feeder) cancel(ctx context.Context) error {
	if len(f.Queue.Ledger.Cancellations().Marks) == 0 {
		return nil
	}
	until := time.Now().Add(cancelFor)
	if last := f.lease.Until().Add(-leaveToMove); last.Before(until) {
		until = last
	}
	ctx, stop := context.WithDeadline(ctx, f.lease.Until())
	defer stop()
	for _, subject := range slices.Sorted(maps.Keys(f.sources)) {
		s := f.sources[subject]
		for f.cancelledOf(s) > 0 {
			if !f.lease.Held() || time.Now().After(until) {
				return nil
			}
			if err := f.cancelSome(ctx, s); err != nil {
				return err
			}
		}
	}
	if now := time.Now(); now.Sub(f.retired) >= sumEvery {
		f.retired = now
		if err := f.cancelFound(ctx); err != nil || f.underWay() {
			return err
		}
		return imports.RetireCancellations(ctx, f.Queue)
	}
	return nil
}

// cancelledOf returns up to which sequence a source is withdrawn from where it is; 0 = there
// is nothing to withdraw now.
func (f *Feeder) cancelledOf(s *source) (upTo uint64) {
	c := f.Queue.Ledger.Cancellations()
	if upTo = c.CoversOf(s.Import, f.birth); s.ready() == 0 || s.next > upTo {
		return 0
	}
	return upTo
}

// cancelSome withdraws the next intents of a source.
func (f *Feeder) cancelSome(ctx context.Context, s *source) error {
	upTo := f.cancelledOf(s)
	g, err := s.take(ctx, f.Queue, min(mostAtOnce, s.ready()))
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(g.Messages, func(m *settle.Message) bool { return m.Seq > upTo }); i >= 0 {
		s.next, g.Messages = g.Messages[i].Seq, g.Messages[:i] // the rest takes its turn
	}
	if len(g.Messages) == 0 {
		return nil
	}
	ends, _, err := f.move(ctx, g)
	if err == nil && slices.Contains(ends, settle.MoveLater) {
		err = errNotYet
	}
	return err
}

// errNotYet ends a round whose intents can be withdrawn a moment later.
var errNotYet = errors.New("a move that failed may still be under way; what was cancelled is withdrawn when that is over")

// cancelFound withdraws the orders that were cancelled singly, where the command found them.
func (f *Feeder) cancelFound(ctx context.Context) error {
	c := f.Queue.Ledger.Cancellations()
	for i := range c.Marks {
		for _, seq := range c.Marks[i].Found {
			if m := &c.Marks[i]; m.Moved.Birth != 0 || m.Waiting.Birth != f.birth || !f.lease.Held() {
				break
			}
			m, err := f.Queue.Store().WaitingAt(ctx, seq)
			if err != nil {
				return err
			}
			if m == nil || settle.WaitingOrderNo(m) != c.Marks[i].OrderNo {
				continue
			}
			if _, _, err = f.move(ctx, settle.WaitingGroup{Messages: []*settle.Message{m}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// cancelledTimed lists what waits for a time, over or to come, of imports that people
// cancelled.
func (f *Feeder) cancelledTimed(ctx context.Context) (list []queue.Waiting, err error) {
	c := f.Queue.Ledger.Cancellations()
	seen := make(map[string]bool)
	for i := range c.Marks {
		m := &c.Marks[i]
		if m.OrderNo != "" || m.Moved.Birth != 0 || seen[m.Import] {
			continue
		}
		seen[m.Import] = true
		timed, err := f.Queue.Waiting.Timed(ctx, m.Import)
		if err != nil {
			return nil, err
		}
		list = append(list, timed...)
	}
	return list, nil
}
