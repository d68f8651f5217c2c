package settle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// Entry is a record as it lies in the results stream.
type Entry struct {
	// Record is nil where the order_no has none.
	Record *order.Record
	// Seq is the record's sequence in the results stream; 0 where there is none.
	Seq uint64

	over *order.Record // what a write of ours took the place of
}

// ErrUnreadable: what lies in the results stream is not a record that this
// program understands. Its order can be neither posted nor settled.
var ErrUnreadable = errors.New("the last word on this order cannot be read")

// writeRecord makes mine the last word on the order_no filed under token, by
// the rules of order.Merge, starting from what its writer read last. It returns
// what stands in the stream afterwards. It goes on through lost confirmations
// and a broker out of reach until ctx ends; ErrStorage is returned at once.
func (q *Protocol) writeRecord(ctx context.Context, token string, base Entry, mine order.Record) (Entry, error) {
	return q.writeUnless(ctx, token, base, mine, func() *order.Record { return nil })
}

// writeUnless asks before each repetition whether something else is to be
// written instead: nil, or what.
func (q *Protocol) writeUnless(ctx context.Context, token string, base Entry, mine order.Record, instead func() *order.Record) (Entry, error) {
	mine.WriteID = newWriteID()
	w := q.cfg.Patience.Wait()
	defer w.Over()
	for {
		next := order.Merge(base.Record, &mine)
		if next == nil {
			return base, nil
		}
		seq, err := q.store.PutRecord(ctx, token, next, base.Seq)
		switch {
		case err == nil:
			return Entry{Record: next, Seq: seq, over: base.Record}, nil
		case errors.Is(err, ErrStorage):
			return base, err
		case ctx.Err() != nil:
			return base, err
		case !errors.Is(err, ErrStale):
			if err := w.Again(ctx, err); err != nil {
				return base, err
			}
		}
		before := base.Record
		if base, err = q.rereadRecord(ctx, token); err != nil {
			return base, err
		}
		if base.Record != nil && base.Record.WriteID == mine.WriteID {
			base.over = before
			return base, nil // the confirmation was lost, the write was not
		}
		if other := instead(); other != nil {
			other.WriteID = mine.WriteID
			mine = *other
		}
	}
}

// ErrStorage is returned where the broker refuses a result, a note or a letter
// for lack of room, or because its storage fails. It closes the gate (R10).
var ErrStorage = errors.New("the broker cannot store results")

// ErrStale is returned for a conditional write whose condition does not hold any
// more: somebody else wrote since its writer read (R1).
var ErrStale = errors.New("somebody else wrote since this was read")

// ErrRefused is returned where the broker answered that it will not do what was
// asked; asking again would not help.
var ErrRefused = errors.New("the broker refused")

// newWriteID names one write, so that its writer recognises it (R1).
func newWriteID() string { return rand.Text() }

// rereadPause is the pace at which a broker out of reach is asked again.
const rereadPause = 100 * time.Millisecond

// rereadRecord reads at the leader until it answers or ctx ends.
func (q *Protocol) rereadRecord(ctx context.Context, token string) (Entry, error) {
	for {
		stored, err := q.store.Record(ctx, token)
		if err == nil || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrUnreachable) {
			return stored, err
		}
		if q.time.Sleep(ctx, rereadPause) != nil {
			return stored, fmt.Errorf("results out of reach: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// Lookup reads the last word on an order_no. Record is nil where there is none.
func (q *Protocol) Lookup(ctx context.Context, orderNo string) (Entry, error) {
	return q.store.Record(ctx, FileToken(order.Token(orderNo)))
}

// IsPending says whether an intent for the order_no is in the queue, waiting
// or being worked on.
func (q *Protocol) IsPending(ctx context.Context, orderNo string) (bool, error) {
	raw, err := q.store.Intent(ctx, orderNo)
	return raw != nil, err
}
