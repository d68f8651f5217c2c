package settle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"orderpost/internal/order"
)

// Withdraw withdraws waiting intents (R13). by names who did it. The caller has
// made sure that no feeder moves any of them, and calls Withdraw with at most a few
// hundred.
//
// An intent that the intents stream has, or that its record names, was moved
// before. Withdraw removes it from the waiting room and leaves it to its worker, or
// to Cancel. It leaves an intent where it is while another one of the order_no is
// pending: the record is about that one. For any other intent it writes the outcome
// first, by R1, and removes the intent afterwards. If it is cut off between the two,
// the next move or withdrawal recognises the outcome.
func (q *Protocol) Withdraw(ctx context.Context, by string, waiting []*Message) (counts Cancelled, err error) {
	for err == nil && len(waiting) > 0 {
		var done Cancelled
		var again []*Message
		now, later := q.oneOfEach(waiting)
		done, again, err = q.withdrawEach(ctx, by, now)
		counts.Withdrawn, counts.Blocked, waiting = counts.Withdrawn+done.Withdrawn, counts.Blocked+done.Blocked, append(again, later...)
	}
	return counts, err
}

// oneOfEach returns the first message of each order_no, and the others. Two outcomes
// of one order_no must not be written at once.
func (q *Protocol) oneOfEach(waiting []*Message) (now, later []*Message) {
	seen := make(map[string]bool, len(waiting))
	for _, m := range waiting {
		if no := WaitingOrderNo(m); !seen[no] {
			seen[no], now = true, append(now, m)
		} else {
			later = append(later, m)
		}
	}
	return now, later
}

// withdrawEach withdraws intents of different orders. It returns in again those whose
// record somebody wrote meanwhile: they may have been moved.
func (q *Protocol) withdrawEach(ctx context.Context, by string, waiting []*Message) (counts Cancelled, again []*Message, err error) {
	intents, open, err := q.withdrawable(ctx, waiting)
	if err != nil {
		return counts, nil, err
	}
	var withdrawn atomic.Int64
	err = q.time.Each(len(open), cancelAtOnce, func(i int) error {
		in := open[i]
		stored, err := q.writeWithdrawn(ctx, by, in)
		switch {
		case errors.Is(err, errWritten): // in.end stays MoveLater
		case err != nil:
			return fmt.Errorf("order %s: %w", in.orderNo, err)
		case !stored.Knows(in.id): // another intent came meanwhile
			in.end = MoveBlocked
		default:
			in.end = Moved // it may leave the waiting room
			withdrawn.Add(1)
		}
		return nil
	})
	counts.Withdrawn = int(withdrawn.Load())
	var gone []*waitingIntent
	for i, in := range intents {
		switch in.end {
		case Moved, MovedBefore:
			gone = append(gone, in)
		case MoveBlocked:
			counts.Blocked++
		default:
			again = append(again, waiting[i])
		}
	}
	return counts, again, errors.Join(err, q.removeSingly(ctx, gone))
}

// withdrawable returns the intents, and those of them to withdraw. It sets the end
// of the others.
func (q *Protocol) withdrawable(ctx context.Context, waiting []*Message) (intents []*waitingIntent, open []*withdrawing, err error) {
	tokens, numbers := make([]string, len(waiting)), make([]string, len(waiting))
	for i, m := range waiting {
		in := q.leaveWaiting(m)
		intents = append(intents, in)
		numbers[i], tokens[i] = in.orderNo, FileToken(order.Token(in.orderNo))
	}
	words, err := q.readLastWords(ctx, tokens)
	if err != nil {
		return nil, nil, err
	}
	// The intents after the records: what is settled but still in the queue must be found by
	// its redelivery, and what is settled from now on makes the write fail.
	pending := make([]*Message, len(intents))
	if err := q.time.Each(len(intents), LeaderReads, func(i int) (err error) {
		pending[i], err = q.store.Intent(ctx, numbers[i])
		return err
	}); err != nil {
		return nil, nil, err
	}
	for i, in := range intents {
		last := words[i].Record
		switch {
		case words[i].Unreadable != nil:
			in.end = MoveBlocked
		case last.Knows(in.id),
			pending[i] != nil && pending[i].IntentID() == in.id:
			in.end = MovedBefore
		case pending[i] != nil, last != nil && last.Outcome() == order.OutcomeNone:
			in.end = MoveBlocked
		default:
			open = append(open, &withdrawing{in, words[i].entry()})
		}
	}
	return intents, open, nil
}

// withdrawing is a waiting intent to withdraw, with the last word on its order_no.
type withdrawing struct {
	*waitingIntent
	last Entry
}

// writeWithdrawn writes the outcome cancelled of a waiting intent, and returns the
// record that the stream holds afterwards. The new record is dated after the last
// one: intents of the order_no that were settled while it waited came before it. It
// is dated before any intent that is stored from now on. It returns errWritten if the
// record is another one by now: a move whose publish was on its way may have given the
// intent to a worker.
func (q *Protocol) writeWithdrawn(ctx context.Context, by string, w *withdrawing) (*order.Record, error) {
	rec := order.Record{OrderNo: w.orderNo, Reason: withdrawnWaiting, By: by, SettledAt: q.time.Now().UTC(), EnqueuedAt: w.storedAt.UTC(),
		Batch: order.Truncate(w.msg.Header.Get(HeaderBatch), maxLabel), Source: order.Truncate(w.msg.Header.Get(HeaderSource), maxLabel),
		IntentID: w.id, Waited: true, Unqueued: true}
	if last := w.last.Record; last != nil && !rec.EnqueuedAt.After(last.LastEnqueued()) {
		rec.EnqueuedAt = last.LastEnqueued().Add(1)
	}
	if parsed, err := order.Parse(w.msg.Data); err == nil {
		rec.BodyHash = parsed.BodyHash()
	}
	rec.SetOutcome(order.OutcomeCancelled)
	stored, err := q.writeOver(ctx, FileToken(order.Token(w.orderNo)), w.last, rec)
	return stored.Record, err
}

const withdrawnWaiting = "withdrawn while it waited"
