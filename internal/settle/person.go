package settle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// ErrPending is returned if a person must wait: an intent for the order_no is
// stored and may get an outcome at any moment.
var ErrPending = errors.New("an intent for this order_no is in the queue; wait until it is settled")

// ErrNoResult is returned if there is nothing to resolve: the order_no has no
// result, or its result has expired.
var ErrNoResult = errors.New("this order_no has no result")

// ErrNotInDoubt is returned for an order whose outcome is known.
var ErrNotInDoubt = errors.New("the order's outcome is not in doubt")

// Person says who decided, and why.
type Person struct {
	Name, Note string
}

// did returns what the person did as an entry of a record.
func (p Person) did(what string, now time.Time) order.Intervention {
	return order.Intervention{At: now.UTC(), By: p.Name, Did: what, Note: p.Note}
}

// What records say that a person did. Intervention.Did holds one of these texts.
const (
	didDrop    = "dropped dead letter "
	didResolve = "resolved as "
)

// LetterDropped returns the sequence of the letter that was dropped by what a person
// did; 0 = it was something else.
func LetterDropped(did string) uint64 { return sequenceAfter(didDrop, did) }

// WasResolved reports whether a person settled an order by what they did.
func WasResolved(did string) bool { return strings.HasPrefix(did, didResolve) }

// sequenceAfter reads the sequence that follows a prefix, up to an @; 0 = there is none.
func sequenceAfter(prefix, text string) uint64 {
	rest, found := strings.CutPrefix(text, prefix)
	if !found {
		return 0
	}
	rest, _, _ = strings.Cut(rest, "@")
	seq, _ := strconv.ParseUint(rest, 10, 64) // 0 if it is no number
	return seq
}

// updateRecord writes the record that decide returns for the current one, by
// R1. The write is conditional on the record that decide saw. If another write
// came between, updateRecord reads the record again and calls decide again.
// decide returns nil if the record needs no change. An error of decide ends the
// update, and nothing is written. After a lost confirmation updateRecord tries
// again until ctx ends.
func (q *Protocol) updateRecord(ctx context.Context, token string, decide func(cur Entry) (*order.Record, error)) (Entry, error) {
	id := newWriteID()
	w := q.cfg.Patience.Wait()
	defer w.Done()
	for {
		cur, err := q.rereadRecord(ctx, token)
		if err != nil || cur.Record != nil && cur.Record.WriteID == id {
			return cur, err
		}
		next, err := decide(cur)
		if err != nil || next == nil {
			return cur, err
		}
		next.WriteID = id
		seq, err := q.store.PutRecord(ctx, token, next, cur.Seq)
		switch {
		case err == nil:
			return Entry{Record: next, Seq: seq, replaced: cur.Record}, nil
		case errors.Is(err, ErrStorage), ctx.Err() != nil:
			return cur, err
		case !errors.Is(err, ErrStale):
			if err := w.Backoff(ctx, err); err != nil {
				return cur, err
			}
		}
	}
}

// requireNonePending returns ErrPending if an intent for the order_no is stored that
// has no outcome yet, or lacks its letter: whoever settles it is about to file that.
func (q *Protocol) requireNonePending(ctx context.Context, orderNo string) error {
	m, entry, err := q.storedAndRecord(ctx, orderNo)
	if err != nil || m == nil {
		return err
	}
	complete, err := q.isComplete(ctx, m, entry.Record)
	if err == nil && !complete {
		err = fmt.Errorf("order %s: %w", orderNo, ErrPending)
	}
	return err
}
