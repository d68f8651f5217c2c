package settle

import (
	"context"
	"fmt"

	"orderpost/internal/order"
)

// Repeat settles an intent that asks for an accepted order again, with the same
// body (WorkRepeat). It only counts the intent.
func (wk *Worker) Repeat(ctx context.Context, d *Delivery) (Entry, error) {
	rec := wk.recordFor(d)
	stored, err := wk.ledger.writeRecord(ctx, d.token, d.Last, &rec)
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	return stored, wk.complete(ctx, d, stored, nil)
}

// Refuse settles a valid intent that must not be submitted: a conflict with an
// accepted order, or one that is withheld because the order's outcome is
// unknown. The result stays. If the intent asks for another body, the result
// lists it among its conflicts. Refuse files the letter first, because the
// result alone would not tell a redelivery that the letter is missing.
//
// The returned record says what became of this intent: rejected for a conflict,
// although the result of the order_no stays accepted.
func (wk *Worker) Refuse(ctx context.Context, d *Delivery) (Entry, error) {
	rec := wk.recordFor(d)
	if d.Work == WorkWithheld { // nobody has dropped this intent's letter, or settled this intent
		rec.Dropped, rec.By = false, ""
		if rec.Outcome() == order.OutcomeNone {
			rec.LeftOpen(wk.ledger.time.Now().UTC())
		}
	}
	letter := wk.ledger.refusal(d, &rec, d.Work)
	refused := letter.refusedRecord(d.Last.Record)
	refused.Waited = d.waited()
	other := rec.BodyHash == "" || d.otherBody(&rec)
	if other {
		rec = *refused
		rec.SetOutcome(order.OutcomeRejected) // order.Merge adds it to the conflicts
	} else {
		rec.Batch, rec.Source = refused.Batch, refused.Source // the same body, from another import
	}
	if err := wk.fileLetter(ctx, d, letter); err != nil {
		return d.Last, fmt.Errorf("order %s: dead letter not written: %w", d.OrderNo(), err)
	}
	stored, err := wk.ledger.writeUnless(ctx, d.token, d.Last, &rec, func(now Entry) (*order.Record, error) {
		if d.Work == WorkWithheld && now.Seq != d.Last.Seq && (now.Record.Outcome() != order.OutcomeAccepted || !d.lease.Valid()) {
			return nil, errWritten // the doubt may be over, or the next delivery counted it; that one decides
		}
		return nil, nil
	})
	if err != nil {
		return stored, wk.explained(ctx, d, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err))
	}
	now := stored.Record
	if now.Outcome() == order.OutcomeAccepted && (d.Work == WorkWithheld || now.ConflictOf(d.Intent.ID) == nil) {
		return stored, wk.complete(ctx, d, stored, nil) // a late acceptance came in between, which may be of this body
	}
	if other {
		refused.Settled = stored.Record.Settled
		stored.Record = refused
	}
	return stored, wk.ack(d)
}
