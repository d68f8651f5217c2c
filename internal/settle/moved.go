package settle

import (
	"context"
	"errors"

	"orderpost/internal/order"
)

// whereMoved judges the broker's answer to the publish of a waiting intent. An
// answer that says "not stored" proves nothing by itself (R6).
func (mv *Mover) whereMoved(ctx context.Context, in *waitingIntent, p Published) (Move, error) {
	switch {
	case p.Err != nil:
		return MoveLater, p.Err
	case p.Status == Stored:
		return Moved, nil
	case p.Status == AlreadyKnown:
		return mv.knownBefore(ctx, in, p.Seq)
	}
	pending, err := mv.ledger.store.Intent(ctx, in.orderNo)
	switch {
	case err != nil || pending == nil: // it went away in between
		return MoveLater, err
	case in.isStoredAs(pending):
		return MovedBefore, nil
	default:
		return MoveBlocked, nil
	}
}

// knownBefore judges an intent that the broker calls a duplicate of the one at
// seq. If that one is gone and the record does not name it, somebody used the ID
// for another order or removed the intent. The broker takes the intent when its
// duplicate window is over.
func (mv *Mover) knownBefore(ctx context.Context, in *waitingIntent, seq uint64) (Move, error) {
	original, err := mv.ledger.store.IntentAt(ctx, seq)
	if err != nil {
		return MoveLater, err
	}
	if original != nil {
		if original.Subject == in.msg.Subject && in.isStoredAs(original) {
			return MovedBefore, nil
		}
		return MoveBlocked, nil
	}
	entry, err := mv.ledger.store.Record(ctx, FileToken(order.Token(in.orderNo)))
	switch {
	case errors.Is(err, ErrUnreadable):
		return MoveBlocked, nil
	case err != nil:
		return MoveLater, err
	case entry.Record.Knows(in.id, in.bodyHash()):
		return MovedBefore, nil
	default:
		return MoveBlocked, nil
	}
}

// moved returns the intents that may leave the waiting room, and how many of them one
// purge of their subject takes: those before the first that stays. A subject that is
// not plain means others, too, as a filter: a producer may publish under
// "orders.waiting.bulk.*".
func (g *waitingGroup) moved() (gone []*waitingIntent, purged int) {
	together := g.whole && PlainSubject(g.intents[0].from)
	for _, in := range g.intents {
		if !in.end.Leaves() || in.from != g.intents[0].from {
			together = false
		}
		if in.end.Leaves() {
			gone = append(gone, in)
		}
		if together {
			purged = len(gone)
		}
	}
	return gone, purged
}

// removeMoved removes moved intents from the waiting room: those before the first that
// stays in one purge, which costs the broker one fsync and not one for each. What stays
// there because the removal failed is recognised by the next move. A removal that is
// late, from a feeder whose term is over, is true all the same: it takes what was moved.
func (mv *Mover) removeMoved(ctx context.Context, groups []waitingGroup) error {
	var singly []*waitingIntent
	var errs []error
	for _, g := range groups {
		gone, purged := g.moved()
		if purged > 1 {
			errs = append(errs, mv.ledger.store.PurgeWaiting(ctx, gone[0].from, gone[purged-1].at))
			gone = gone[purged:]
		}
		singly = append(singly, gone...)
	}
	return errors.Join(append(errs, mv.removeSingly(ctx, singly))...)
}

// removeSingly removes intents from the waiting room by their sequences.
func (mv *Mover) removeSingly(ctx context.Context, gone []*waitingIntent) error {
	return mv.ledger.eachRemoval(len(gone), func(i int) error { return mv.ledger.store.DeleteWaiting(ctx, gone[i].at) })
}
