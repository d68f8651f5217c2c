package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// ErrPending is returned where a person's word must wait, since an intent for
// the order_no is in the queue and may get an outcome at any moment.
var ErrPending = errors.New("an intent for this order_no is in the queue; wait until it is settled")

// ErrNoResult is returned where there is nothing to be settled: the order_no
// has no result, or one that has expired.
var ErrNoResult = errors.New("this order_no has no result")

// ErrNotInDoubt is returned by Resolve for an order whose outcome is known.
var ErrNotInDoubt = errors.New("the order's outcome is not in doubt")

// Person is who decides, and why.
type Person struct {
	Name, Note string
}

func (p Person) did(what string, now time.Time) order.Intervention {
	return order.Intervention{At: now.UTC(), By: p.Name, Did: what, Note: p.Note}
}

// amend writes a person's word by R1: on condition that the last word is the
// one that decide saw, and again from the start where it was not. decide
// returns nil where the record stands as wanted already. Its errors end it, and
// nothing is written. It goes on through lost confirmations until ctx ends.
func (q *Protocol) amend(ctx context.Context, token string, decide func(cur *order.Record) (*order.Record, error)) (Entry, error) {
	id := newWriteID()
	w := q.cfg.Patience.Wait()
	defer w.Over()
	for {
		cur, err := q.rereadRecord(ctx, token)
		if err != nil || cur.Record != nil && cur.Record.WriteID == id {
			return cur, err
		}
		next, err := decide(cur.Record)
		if err != nil || next == nil {
			return cur, err
		}
		next.WriteID = id
		seq, err := q.store.PutRecord(ctx, token, next, cur.Seq)
		switch {
		case err == nil:
			return Entry{Record: next, Seq: seq, over: cur.Record}, nil
		case errors.Is(err, ErrStorage), ctx.Err() != nil:
			return cur, err
		case !errors.Is(err, ErrStale):
			if err := w.Again(ctx, err); err != nil {
				return cur, err
			}
		}
	}
}

// requireNonePending returns ErrPending while an intent for the order_no is stored.
func (q *Protocol) requireNonePending(ctx context.Context, orderNo string) error {
	pending, err := q.IsPending(ctx, orderNo)
	if err == nil && pending {
		err = fmt.Errorf("order %s: %w", orderNo, ErrPending)
	}
	return err
}
