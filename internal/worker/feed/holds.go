package feed

import (
	"context"
	"errors"
	"slices"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/settle"
)

// readHolds reads which imports are paused and what people cancelled, after each renewal of
// the lease. The answer is as of the renewal or later. So a feeder knows every hold that was
// written while nobody fed, and every cancellation that its predecessor knew. The next renewal tells which holds are kept. Between the reading and the
// renewal no move is under way. If one failed a moment ago, its publish may be: then
// readHolds returns wait, nothing is moved, and the renewal tells it a moment later.
func (f *Feeder) readHolds(ctx context.Context) (wait bool, err error) {
	if f.heldAt != f.lease.Revision() {
		now, err := imports.ReadFeeding(ctx, f.Queue, f.lease.Revision())
		if err != nil {
			return true, err
		}
		if f.Ruled && now.Approvals.Rule == "" {
			return true, errUnruled
		}
		if f.holds != nil && f.holds.HoldsRevision != now.HoldsRevision {
			f.listNow() // what may go on again is ready at once
		}
		f.holds, f.heldAt = now, f.lease.Revision()
		f.Queue.Ledger.SetCancellations(now.Cancelled)
	}
	if f.holds.HoldsRevision == f.mine.Holds {
		return false, nil
	}
	if f.underWay() {
		return true, nil
	}
	f.mine.Holds = f.holds.HoldsRevision
	f.lease.Changed()
	return false, nil
}

// errUnruled means that the rule for approvals is not there.
var errUnruled = errors.New("the fleet has no rule for approvals although ORDERPOST_APPROVALS is set; a worker puts it back")

// ignoreBehind returns nil for a lagging replica's answer. The next round asks again.
func ignoreBehind(err error) error {
	if errors.Is(err, imports.ErrBehind) {
		return nil
	}
	return err
}

// readyOf returns how many intents of a source may be fed, or more if some of them need
// another approval.
func (f *Feeder) readyOf(s *source) int {
	if f.holds.Held(s.Import) || s.At.After(f.listed) || f.cancelledOf(s) > 0 {
		return 0
	}
	upTo := f.approvals.upTo(f.holds, s.Import, f.birth)
	if upTo != s.upTo { // begin at the first intents
		s.upTo, s.next, s.stuck, s.again = upTo, 0, 0, time.Time{}
	}
	switch {
	case upTo == 0:
		return 0
	case s.next > upTo: // what is left needs another approval, or is blocked and tried again soon
		s.stuck, s.pause = s.Count, 0
		return 0
	}
	return s.ready()
}

// held reports whether nothing of an import is fed, by its token: a person paused it, or it
// lacks an approval.
func (f *Feeder) held(token string) bool {
	return f.holds.Held(token) || f.approvals.upTo(f.holds, token, f.birth) == 0
}

// approved leaves out of what was read of a source what was not approved.
func (f *Feeder) approved(s *source, g settle.WaitingGroup) settle.WaitingGroup {
	upTo := f.approvals.upTo(f.holds, s.Import, f.birth)
	if i := slices.IndexFunc(g.Messages, func(m *settle.Message) bool { return m.Seq > upTo }); i >= 0 {
		s.next, g.Messages = g.Messages[i].Seq, g.Messages[:i]
	}
	return g
}
