package settle

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
)

// whereMoved judges the broker's answer to the publish of a waiting intent. An
// answer that says "not stored" proves nothing by itself (R6).
func (q *Protocol) whereMoved(ctx context.Context, in *waitingIntent, p Published) (Move, error) {
	switch {
	case p.Err != nil:
		return MoveLater, p.Err
	case p.Status == Stored:
		return Moved, nil
	case p.Status == AlreadyKnown:
		return q.knownBefore(ctx, in, p.Seq)
	}
	pending, err := q.store.Intent(ctx, in.orderNo)
	switch {
	case err != nil || pending == nil: // it went away in between
		return MoveLater, err
	case pending.Header.Get(HeaderIntentID) == in.id:
		return MovedBefore, nil
	default:
		return MoveBlocked, nil
	}
}

// knownBefore judges an intent that the broker calls a duplicate of the one at
// seq. If that one is gone and the record does not name it, somebody used the ID
// for another order or removed the intent. The broker takes the intent when its
// duplicate window is over.
func (q *Protocol) knownBefore(ctx context.Context, in *waitingIntent, seq uint64) (Move, error) {
	original, err := q.store.IntentAt(ctx, seq)
	if err != nil {
		return MoveLater, err
	}
	if original != nil {
		if original.Subject == in.msg.Subject {
			return MovedBefore, nil
		}
		return MoveBlocked, nil
	}
	entry, err := q.store.Record(ctx, FileToken(order.Token(in.orderNo)))
	switch {
	case errors.Is(err, ErrUnreadable):
		return MoveBlocked, nil
	case err != nil:
		return MoveLater, err
	case entry.Record.Knows(in.id):
		return MovedBefore, nil
	default:
		return MoveBlocked, nil
	}
}

// removeWaiting removes moved intents from the waiting room. What stays there is
// recognised by the next move. So an acknowledgement needs no answer, and one that
// comes late, from a feeder whose term is over, is true all the same.
func (q *Protocol) removeWaiting(ctx context.Context, gone []*waitingIntent) error {
	var read []*waitingIntent
	for _, in := range gone {
		if in.answer == nil {
			read = append(read, in)
		} else if err := in.answer.Ack(); err != nil {
			return err
		}
	}
	return q.time.Each(len(read), LeaderReads, func(i int) error { return q.store.DeleteWaiting(ctx, read[i].at) })
}

// firstPause and longestPause bound how long an intent that was pulled and could not
// be moved is left alone. The pauses grow: intents that come back go before others,
// and many blocked ones must not keep the others waiting.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// giveBackWaiting returns the pulled intents that were not moved.
func (q *Protocol) giveBackWaiting(intents []*waitingIntent) error {
	for _, in := range intents {
		if in.answer == nil || in.end == Moved || in.end == MovedBefore {
			continue
		}
		pause := firstPause
		switch {
		case in.ahead > 0:
			pause = min(in.ahead, longestPause)
		case in.end == MoveBlocked:
			pause = min(firstPause<<min(max(in.delivered, 1)-1, 16), longestPause)
		}
		if err := in.answer.NakWithDelay(pause); err != nil {
			return err
		}
	}
	return nil
}
