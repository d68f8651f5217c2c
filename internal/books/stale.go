package books

import (
	"context"
	"errors"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// StaleIntents is what RemoveStale found and did.
type StaleIntents struct {
	// Removed counts the intents that had their outcome, and are not stored any
	// more.
	Removed int
	// Stranded are the order numbers of intents without an outcome, 100 at most.
	// The broker will deliver them to nobody, and only a person can help
	// (docs/operations.md).
	Stranded []string

	seqs map[uint64]bool // seen by this call, at most maxStale
}

// maxStale bounds what one call remembers for the next.
const maxStale = 10_000

// errEnough ends a walk.
var errEnough = errors.New("read far enough")

// RemoveStale removes intents that the broker still stores although they were
// acknowledged: it was killed after the acknowledgement was on its disk, and
// before the removal from the stream was. Nobody gets such an intent delivered,
// and its order_no cannot be used again. It lies at or below the consumer's
// acknowledgement floor. Its outcome, which is written before the acknowledgement
// (R4), shows that there is nothing left to do.
//
// JetStream takes another acknowledgement of it, and removes it. Replicas count
// an acknowledgement a little before they remove the intent. So RemoveStale
// removes only what the call before, whose result is given as before, has seen
// too; the zero value says that there was none. Without stale intents it costs two
// requests. It returns what it found also with an error.
func RemoveStale(ctx context.Context, q *queue.Queue, before StaleIntents) (StaleIntents, error) {
	s := StaleIntents{seqs: make(map[uint64]bool)}
	floor, err := q.AckFloor(ctx)
	if err != nil || floor == 0 {
		return s, err
	}
	state, err := q.Intents().State(ctx)
	if err != nil || state.Messages == 0 || state.FirstSeq > floor {
		return s, err
	}
	err = q.Intents().Walk(ctx, 1, floor, func(page []*settle.Message) error {
		for _, m := range page {
			if len(s.seqs) == maxStale {
				return errEnough
			}
			if s.seqs[m.Seq] = true; !before.seqs[m.Seq] {
				continue
			}
			if err := s.remove(ctx, q, m.Seq); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return s, err
}

// remove judges one intent at or below the floor, and removes it if nothing is
// left to do with it.
func (s *StaleIntents) remove(ctx context.Context, q *queue.Queue, seq uint64) error {
	m, settled, err := staleIntent(ctx, q, seq)
	switch {
	case err != nil || m == nil:
		return err
	case !settled:
		if len(s.Stranded) < maxOffenders {
			s.Stranded = append(s.Stranded, orderNoOf(q, m))
		}
		return nil
	}
	if err := q.AcknowledgeAgain(ctx, seq); err != nil {
		return err
	}
	s.Removed++
	return nil
}

// staleIntent looks at an intent below the floor again, at the leaders: a walk may
// have read from a follower. m is nil where there is nothing to say: the intent is
// gone, or an audit names its record or its letter.
func staleIntent(ctx context.Context, q *queue.Queue, seq uint64) (m *settle.Message, settled bool, err error) {
	m, err = q.Store().IntentAt(ctx, seq)
	if err != nil || m == nil {
		return nil, false, err
	}
	token := settle.FiledToken(q.Intents().Token(m), m.Seq, m.Time)
	entry, err := q.Store().Record(ctx, token)
	switch {
	case errors.Is(err, settle.ErrUnreadable):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case entry.Record == nil || !settledBy(m, entry.Record) && !broughtBack(m, entry.Record):
		return m, false, nil
	case !entry.Record.NeedsLetter():
		return m, true, nil
	}
	letter, err := q.Store().Letter(ctx, token)
	if errors.Is(err, settle.ErrNotALetter) {
		return nil, false, nil
	}
	if letter == nil {
		m = nil
	}
	return m, true, err
}

// broughtBack says whether the record is about an intent that was stored after
// this stale one. The stream holds one intent for each order_no, so the stale one
// had its outcome and was removed by then; a broker that was killed has brought it
// back. This holds for stale intents only: a broker's clock can step back.
func broughtBack(stale *settle.Message, r *order.Record) bool {
	return r.LastEnqueued().After(stale.Time)
}

// orderNoOf names an intent by its subject.
func orderNoOf(q *queue.Queue, m *settle.Message) string {
	no, err := order.OrderNoFromToken(q.Intents().Token(m))
	if err != nil {
		return m.Subject
	}
	return no
}
