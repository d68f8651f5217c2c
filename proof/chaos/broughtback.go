package chaos

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// dropBroughtBack drops, as a person would, the dead letters that workers removed and that are
// there again, and returns how many there were: a broker that is killed may bring one back
// (docs/jepsen.md). A letter that no worker removed stays, for the history and the audit to
// find.
func (r *rig) dropBroughtBack(ctx context.Context) (n int, err error) {
	if r.history == nil { // the workers do not log what they remove
		return 0, nil
	}
	removed, err := removedLetters(r.workerLogs())
	if err != nil {
		return 0, err
	}
	back, err := storedAgain(ctx, r.js, removed)
	if err != nil {
		return 0, err
	}
	for seq, orderNo := range back {
		r.say("%s: its dead letter %d was removed, and is there again", orderNo, seq)
		if err := r.insist(ctx, always, "deadletter", "drop", "--order-no", orderNo, "--yes", "--by", "chaos"); err != nil {
			return 0, err
		}
	}
	return len(back), nil
}

// removedLetters returns the letters of whose removal the processes' logs tell: the order_no by
// the letter's sequence.
func removedLetters(logs []*process) (map[uint64]string, error) {
	removed := make(map[uint64]string)
	for _, p := range logs {
		if err := p.eachLine(func(l *logged) {
			if l.Message == "dead letter removed" {
				removed[l.Sequence] = l.OrderNo
			}
		}); err != nil {
			return nil, err
		}
	}
	return removed, nil
}

// storedAgain returns those letters that are stored.
func storedAgain(ctx context.Context, js jetstream.JetStream, removed map[uint64]string) (map[uint64]string, error) {
	s, err := js.Stream(ctx, readStreams[1])
	if err != nil {
		return nil, err
	}
	back := make(map[uint64]string)
	for seq, orderNo := range removed {
		there, err := letterStored(ctx, s, seq)
		if err != nil {
			return nil, err
		}
		if there {
			back[seq] = orderNo
		}
	}
	return back, nil
}
