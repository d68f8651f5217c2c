package settle

import (
	"context"
	"fmt"

	"orderpost/internal/order"
)

// Repeat settles an intent that asks for an accepted order again, with the same
// body (WorkRepeat). It only counts the intent.
func (q *Protocol) Repeat(ctx context.Context, d *Delivery) (Entry, error) {
	rec := q.recordFor(d)
	stored, err := q.writeRecord(ctx, d.token, d.Last, rec)
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	return stored, q.complete(ctx, d, stored, nil)
}

// Refuse settles a valid intent that must not be submitted: a conflict with an
// accepted order, or one that is withheld because the order's outcome is
// unknown. The result stays. If the intent asks for another body, the result
// lists it among its conflicts. Refuse files the letter first, because the
// result alone would not tell a redelivery that the letter is missing.
//
// The returned record says what became of this intent: rejected for a conflict,
// although the result of the order_no stays accepted.
func (q *Protocol) Refuse(ctx context.Context, d *Delivery) (Entry, error) {
	rec := q.recordFor(d)
	if d.Work == WorkWithheld { // nobody has dropped this intent's letter, or settled this intent
		rec.Dropped, rec.By = false, ""
	}
	letter := q.refusal(d, &rec, d.Work)
	refused := letter.refusedRecord(d.Last.Record)
	if letter.Conflict {
		rec = *refused // order.Merge adds it to the conflicts of the acceptance
	} else if rec.BodyHash == "" || d.otherBody(&rec) {
		rec.Refuse(refused)
	} else {
		rec.Batch, rec.Source = refused.Batch, refused.Source // the same body, from another import
	}
	if err := q.fileLetter(ctx, d, letter); err != nil {
		return d.Last, fmt.Errorf("order %s: dead letter not written: %w", d.OrderNo(), err)
	}
	stored, err := q.writeUnless(ctx, d.token, d.Last, rec, func(now Entry) (*order.Record, error) {
		if d.Work == WorkWithheld && now.Seq != d.Last.Seq && (now.Record.Outcome() != order.OutcomeAccepted || !d.lease.Valid()) {
			return nil, errWritten // the doubt may be over, or the next delivery counted it; that one decides
		}
		return nil, nil
	})
	if err != nil {
		return stored, q.explained(ctx, d, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err))
	}
	if d.Work == WorkWithheld && stored.Record.Outcome() == order.OutcomeAccepted { // a late acceptance came in between
		if err := q.removeLetter(ctx, d.token, stored.Record); err != nil {
			return stored, fmt.Errorf("order %s: %w", d.OrderNo(), err)
		}
		return stored, q.complete(ctx, d, stored, nil)
	}
	if letter.Conflict {
		refused.Settled = stored.Record.Settled
		stored.Record = refused
	}
	return stored, q.ack(d)
}

// refusedRecord returns what became of a refused intent as a record of its own.
// stood is the record that the intent conflicts with.
func (l *Letter) refusedRecord(stood *order.Record) *order.Record {
	rec := &order.Record{OrderNo: l.OrderNo, Reason: l.Reason, Error: l.Error, EnqueuedAt: l.EnqueuedAt, SettledAt: l.FiledAt,
		Batch: l.Batch, Source: l.Source, Worker: stood.Worker, IntentID: l.IntentID, BodyHash: l.BodyHash, Settled: stood.Settled}
	rec.SetOutcome(l.Outcome)
	return rec
}

// refusal returns the letter of an intent that must not be submitted. rec is
// the record that forbids it.
func (q *Protocol) refusal(d *Delivery, rec *order.Record, why Work) *Letter {
	l := newLetter(d, rec, nil)
	l.FiledAt, l.EnqueuedAt = q.time.Now().UTC(), d.StoredAt.UTC()
	if d.Invalid != nil {
		l.Error = d.Invalid.Error()
	}
	if why == WorkConflict {
		l.Outcome, l.Conflict = order.OutcomeRejected, true
		l.Reason = reasonConflict
	} else {
		l.Reason = reasonWithheld
	}
	return l
}

// Why letters say that an intent was not submitted.
const (
	reasonConflict = "conflict: the order_no was accepted before with another body"
	reasonWithheld = "withheld: the order_no's earlier outcome is unknown, and nobody allowed another attempt"
)

// recordFor returns the current record with this intent as the one that it
// settles.
func (q *Protocol) recordFor(d *Delivery) order.Record {
	rec := *d.Last.Record
	rec.IntentID, rec.EnqueuedAt, rec.Waited, rec.Unqueued = d.Intent.ID, d.StoredAt.UTC(), d.waited(), false
	return rec
}
