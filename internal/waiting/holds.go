package waiting

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/books"
	"orderpost/internal/settle"
)

// moveEnds is how long a publish of a move that failed may be on its way.
const moveEnds = settle.RequestTimeout

// readHolds reads which imports are held, after each renewal of the lease. The
// answer is as of the renewal or later, so a hold that was written while nobody fed
// is in it. The next renewal tells which holds are kept. Between the reading and the
// renewal no move is under way. If one failed a moment ago, its publish may be: then
// readHolds returns wait, nothing is moved, and the renewal tells it a moment later.
func (f *Feeder) readHolds(ctx context.Context) (wait bool, err error) {
	if f.heldAt != f.lease.revision {
		now, err := books.ReadFeeding(ctx, f.Queue, f.lease.revision)
		if err != nil {
			return true, err
		}
		if f.holds != nil && f.holds.HoldsRevision != now.HoldsRevision {
			f.listed, f.swept = time.Time{}, time.Time{} // what may go on again is ready at once
		}
		f.holds, f.heldAt = now, f.lease.revision
	}
	if f.holds.HoldsRevision == f.lease.mine.Holds {
		return false, nil
	}
	if time.Since(f.unsureAt) < moveEnds {
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
	if f.holds.Held(s.Import) {
		return 0
	}
	return s.ready()
}
