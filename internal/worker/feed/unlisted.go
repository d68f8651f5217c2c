package feed

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/settle"
)

// unlistedEvery is how often the feeder compares the waiting room with its list of
// subjects.
const unlistedEvery = 5 * time.Second

// unlisted is how far the feeder has read the waiting room for what the list lacks.
type unlisted struct {
	looked time.Time
	next   uint64
}

// moveUnlisted moves intents whose subjects the broker does not list. They take no turns,
// and nobody can pause them: only a producer that builds its subjects by hand makes one.
func (f *Feeder) moveUnlisted(ctx context.Context) error {
	u := &f.unlisted
	if time.Since(u.looked) < unlistedEvery {
		return nil
	}
	found, next, more, err := f.Queue.Waiting.Unlisted(ctx, u.next)
	if err != nil {
		return err
	}
	if !more {
		u.looked = time.Now()
	}
	u.next = next
	found = slices.DeleteFunc(found, func(m *settle.Message) bool {
		lacks := f.approvals.upTo(f.holds, f.Queue.Waiting.Import(m), f.birth) == 0
		if lacks {
			u.next = min(u.next, m.Seq)
		}
		return lacks
	})
	if len(found) == 0 {
		return nil
	}
	if feeds, err := f.lease.Keep(ctx); err != nil || !feeds {
		u.next = found[0].Seq
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, f.lease.Until())
	defer cancel()
	ends, moved, err := f.move(ctx, settle.WaitingGroup{Messages: found})
	for i, end := range ends {
		if !end.Leaves() {
			u.next = min(u.next, found[i].Seq)
		}
	}
	if moved > 0 {
		f.Log.Warn().Int("intents", moved).Str("subject", found[0].Subject).
			Msg("moved waiting intents whose subjects the broker cannot list: their producer does not encode them, see docs/producers.md")
	}
	return err
}
