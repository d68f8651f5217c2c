package waiting

import (
	"context"
	"errors"

	"orderpost/internal/books"
)

// readHolds reads which imports are paused and what people cancelled, after each renewal of
// the lease. The answer is as of the renewal or later. So a feeder knows every hold that was
// written while nobody fed, and every cancellation that its predecessor knew. The next renewal tells which holds are kept. Between the reading and the
// renewal no move is under way. If one failed a moment ago, its publish may be: then
// readHolds returns wait, nothing is moved, and the renewal tells it a moment later.
func (f *Feeder) readHolds(ctx context.Context) (wait bool, err error) {
	if f.heldAt != f.lease.revision {
		now, err := books.ReadFeeding(ctx, f.Queue, f.lease.revision)
		if err != nil {
			return true, err
		}
		if f.holds != nil && f.holds.HoldsRevision != now.HoldsRevision {
			f.listNow() // what may go on again is ready at once
		}
		f.holds, f.heldAt = now, f.lease.revision
		f.Queue.SetCancellations(now.Cancelled)
	}
	if f.holds.HoldsRevision == f.lease.mine.Holds {
		return false, nil
	}
	if f.underWay() {
		return true, nil
	}
	f.lease.mine.Holds, f.lease.news = f.holds.HoldsRevision, true
	return false, nil
}

// ignoreBehind returns nil for a lagging replica's answer. The next round asks again.
func ignoreBehind(err error) error {
	if errors.Is(err, books.ErrBehind) {
		return nil
	}
	return err
}

// readyOf returns how many intents of a source may be fed.
func (f *Feeder) readyOf(s *source) int {
	if f.holds.Held(s.Import) || s.At.After(f.listed) || f.cancelledOf(s) > 0 {
		return 0
	}
	return s.ready()
}
