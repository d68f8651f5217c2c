package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// removedLetter is a dead letter whose removal the broker confirmed to a worker.
type removedLetter struct {
	orderNo string
	seq     uint64
}

// dropBroughtBack drops, as a person would, the dead letters that workers removed and that are
// there again, and returns how many there were: a broker that is killed may bring one back
// (docs/jepsen.md). A letter that no worker removed stays, for the history and the audit to
// find.
func (r *rig) dropBroughtBack(ctx context.Context) (n int, err error) {
	var removed []removedLetter
	if r.history != nil { // else the workers do not log it
		if removed, err = removedLetters(r.workerLogs()); err != nil {
			return 0, err
		}
	}
	back, err := storedAgain(ctx, r.js, removed)
	if err != nil {
		return 0, err
	}
	for _, l := range back {
		r.say("%s: its dead letter %d was removed, and is there again", l.orderNo, l.seq)
		if err := r.insist(ctx, always, "deadletter", "drop", "--order-no", l.orderNo, "--yes", "--by", "chaos"); err != nil {
			return 0, err
		}
	}
	return len(back), nil
}

// removedLetters returns the letters that the processes logged as removed.
func removedLetters(logs []*process) (all []removedLetter, err error) {
	for _, p := range logs {
		if err := p.eachLine(func(l *logged) {
			if l.Message == "dead letter removed" {
				all = append(all, removedLetter{l.OrderNo, l.Sequence})
			}
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b removedLetter) int { return cmp.Compare(a.seq, b.seq) })
	return slices.Compact(all), nil // a removal whose confirmation was lost is repeated
}

// storedAgain returns those letters that are stored.
func storedAgain(ctx context.Context, js jetstream.JetStream, removed []removedLetter) (back []removedLetter, err error) {
	if len(removed) == 0 {
		return nil, nil
	}
	s, err := js.Stream(ctx, readStreams[1])
	if err != nil {
		return nil, err
	}
	for _, l := range removed {
		switch _, err := s.GetMsg(ctx, l.seq); {
		case err == nil:
			back = append(back, l)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, fmt.Errorf("dead letter %d of %s: %w", l.seq, l.orderNo, err)
		}
	}
	return back, nil
}
