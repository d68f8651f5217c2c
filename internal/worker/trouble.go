package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/submit/gate"
)

// troubles shares the breaker and denied credentials: the first worker to shut
// its gate says so, and probes; the others hold theirs without asking the API.
// Where the prober is gone, another takes its place.
type troubles struct {
	f *Fleet
	// followed are the reasons for which the gate is shut for others' troubles.
	followed map[string]string
	// known are our own blocks as of the last round, for passOn to notice a change.
	known map[string]bool
}

func newTroubles(f *Fleet) *troubles {
	return &troubles{f: f, followed: make(map[string]string), known: make(map[string]bool)}
}

// changed: a shared block of ours came or went since the last round.
func (t *troubles) changed() bool {
	for _, name := range gate.SharedBlocks() {
		if t.stands(name) != t.known[name] {
			return true
		}
	}
	return false
}

func (t *troubles) stands(name string) bool { return t.reason(name) != "" }

func (t *troubles) reason(name string) string {
	for _, b := range t.f.Gate.State().Blocks {
		if b.Name == name {
			return b.Reason
		}
	}
	return ""
}

func (t *troubles) obey(ctx context.Context, view *queue.Fleet) error {
	var errs []error
	for _, name := range gate.SharedBlocks() {
		t.known[name] = t.stands(name)
		errs = append(errs, t.settle(ctx, name, view.Troubles[name]))
	}
	return errors.Join(errs...)
}

// settle compares one shared block with what the fleet says of it.
func (t *troubles) settle(ctx context.Context, name string, said *queue.Trouble) error {
	mine := queue.Trouble{Owner: t.f.me.id, Worker: t.f.Name, Reason: t.reason(name), Since: time.Now().UTC()}
	if name == gate.BlockCredentials {
		mine.Mark = t.f.KeyMark()
	}
	switch {
	case said == nil || said.Mark != mine.Mark: // none, or about another key
		t.release(name)
		if said == nil && mine.Reason != "" {
			return taken(t.f.Queue.OwnTrouble(ctx, name, mine, 0))
		}
	case said.Owner == t.f.me.id:
		return t.own(ctx, name, said, mine.Reason == "")
	case slices.Contains(t.f.others, said.Owner):
		t.follow(name, said)
	default:
		return t.takeOver(ctx, name, said, mine)
	}
	return nil
}

// own is the prober's round: the trouble is over once its own block is gone. It
// may hold itself still: it took over, and the confirmation got lost.
func (t *troubles) own(ctx context.Context, name string, said *queue.Trouble, over bool) error {
	text := t.followed[name]
	switch {
	case text != "":
		t.f.Gate.ShutAndProbe(name, said.Reason)
		t.f.Gate.LiftRemote(name)
		delete(t.followed, name)
	case over:
		return taken(t.f.Queue.EndTrouble(ctx, name, said.Revision))
	default:
		t.f.Gate.ResumeProbe(name)
	}
	return nil
}

// follow stops this worker while another one probes.
func (t *troubles) follow(name string, said *queue.Trouble) {
	text := fmt.Sprintf("%s of worker %s, which asks the API for all: %s", name, said.Worker, said.Reason)
	if t.followed[name] != text {
		t.f.Gate.ShutRemote(name, text)
		t.followed[name] = text
	}
	t.f.Gate.DeferProbe(name)
}

// release lets this worker go on after the prober found the trouble mended.
func (t *troubles) release(name string) {
	if text := t.followed[name]; text != "" {
		t.f.Gate.RemoteRecovered(name)
		t.f.Gate.LiftRemote(name)
		delete(t.followed, name)
		t.known[name] = t.stands(name)
	}
}

// takeOver makes this worker the prober after the last one has gone.
func (t *troubles) takeOver(ctx context.Context, name string, said *queue.Trouble, mine queue.Trouble) error {
	mine.Reason = said.Reason
	if err := t.f.Queue.OwnTrouble(ctx, name, mine, said.Revision); err != nil {
		return taken(err)
	}
	t.f.Gate.ShutAndProbe(name, said.Reason)
	if text := t.followed[name]; text != "" {
		t.f.Gate.LiftRemote(name)
		delete(t.followed, name)
	}
	return nil
}

// taken: that somebody else was first is seen in the next round.
func taken(err error) error {
	if errors.Is(err, queue.ErrTaken) {
		return nil
	}
	return err
}
