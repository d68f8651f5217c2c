package settle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// writeRecord merges mine into the record under token, by the rules of
// order.Merge, starting from base, which its writer read last. It returns the
// record that the stream holds afterwards. After lost confirmations and while
// the broker is out of reach, it tries again until ctx ends. It returns
// ErrStorage at once.
func (lg *Ledger) writeRecord(ctx context.Context, token string, base Entry, mine *order.Record) (Entry, error) {
	return lg.writeUnless(ctx, token, base, mine, func(Entry) (*order.Record, error) { return nil, nil })
}

// errWritten means that somebody decided on a record that is no longer stored.
var errWritten = fmt.Errorf("another worker or a person wrote its record meanwhile: %w", order.ErrLeaseLost)

// writeOver is writeRecord that writes over base alone. It returns errWritten if
// another record is stored by then.
func (lg *Ledger) writeOver(ctx context.Context, token string, base Entry, mine *order.Record) (Entry, error) {
	return lg.writeUnless(ctx, token, base, mine, func(now Entry) (*order.Record, error) {
		if now.Seq != base.Seq {
			return nil, errWritten
		}
		return nil, nil
	})
}

// writeUnless is writeRecord that calls instead before each repetition, with the
// record that is stored. If instead returns a record, writeUnless writes that one. An
// error ends the write.
func (lg *Ledger) writeUnless(ctx context.Context, token string, base Entry, mine *order.Record, instead func(base Entry) (*order.Record, error)) (Entry, error) {
	mine.WriteID = newWriteID()
	w := lg.cfg.Patience.Wait()
	defer w.Done()
	for {
		next := order.Merge(base.Record, mine)
		if next == nil {
			return base, nil
		}
		seq, err := lg.store.PutRecord(ctx, token, next, base.Seq)
		switch {
		case err == nil:
			lg.removeUnnamed(ctx, token, base.Record, next)
			return Entry{Record: next, Seq: seq}, nil
		case errors.Is(err, ErrStorage):
			return base, err
		case ctx.Err() != nil:
			return base, err
		case !errors.Is(err, ErrStale):
			if err := w.Backoff(ctx, err); err != nil {
				return base, err
			}
		}
		before := base.Record
		if base, err = lg.rereadRecord(ctx, token); err != nil {
			return base, err
		}
		w.Answered()
		if base.Record != nil && base.Record.WriteID == mine.WriteID {
			lg.removeUnnamed(ctx, token, before, base.Record)
			return base, nil // only the confirmation was lost
		}
		other, err := instead(base)
		if err != nil {
			return base, err
		}
		if other != nil {
			other.WriteID = mine.WriteID
			mine = other
		}
	}
}

// newWriteID returns a name for one write, by which its writer recognises it
// (R1).
func newWriteID() string { return rand.Text() }

// rereadPause is the time between two tries of a read while the broker is out
// of reach.
const rereadPause = 100 * time.Millisecond

// rereadRecord reads the record under token at the leader. It repeats the read
// until the leader answers or ctx ends.
func (lg *Ledger) rereadRecord(ctx context.Context, token string) (Entry, error) {
	for {
		stored, err := lg.store.Record(ctx, token)
		if err == nil || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrUnreachable) {
			return stored, err
		}
		if lg.time.Sleep(ctx, rereadPause) != nil {
			return stored, fmt.Errorf("results could not be read: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// Lookup reads the record of an order_no at the leader. Entry.Record is nil if
// there is none.
func (lg *Ledger) Lookup(ctx context.Context, orderNo string) (Entry, error) {
	return lg.store.Record(ctx, FileToken(order.Token(orderNo)))
}

// updateRecord writes the record that decide returns for the current one, by
// R1. The write is conditional on the record that decide saw. If another write
// came between, updateRecord reads the record again and calls decide again.
// decide returns nil if the record needs no change. An error of decide ends the
// update, and nothing is written. After a lost confirmation updateRecord tries
// again until ctx ends.
func (lg *Ledger) updateRecord(ctx context.Context, token string, decide func(cur Entry) (*order.Record, error)) (Entry, error) {
	id := newWriteID()
	w := lg.cfg.Patience.Wait()
	defer w.Done()
	for {
		cur, err := lg.rereadRecord(ctx, token)
		if err != nil || cur.Record != nil && cur.Record.WriteID == id {
			return cur, err
		}
		w.Answered()
		next, err := decide(cur)
		if err != nil || next == nil {
			return cur, err
		}
		next.WriteID = id
		seq, err := lg.store.PutRecord(ctx, token, next, cur.Seq)
		switch {
		case err == nil:
			lg.removeUnnamed(ctx, token, cur.Record, next)
			return Entry{Record: next, Seq: seq}, nil
		case errors.Is(err, ErrStorage), ctx.Err() != nil:
			return cur, err
		case !errors.Is(err, ErrStale):
			if err := w.Backoff(ctx, err); err != nil {
				return cur, err
			}
		}
	}
}
