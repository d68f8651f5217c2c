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
	stored, err := wk.ledger.writeUnless(ctx, d.token, d.Last, &rec, func(now Entry) (*order.Record, error) {
		if now.Record.Outcome() != order.OutcomeAccepted || d.otherBody(now.Record) {
			return nil, errWritten // the next delivery decides
		}
		d.Last = now
		again := wk.recordFor(d)
		return &again, nil
	})
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	return stored, wk.complete(ctx, d, stored.Record, nil)
}

// Refuse settles a valid intent that must not be submitted: a conflict with an
// accepted order, or one that is withheld because the order's outcome is
// unknown. The result stays. If the intent asks for another body, the result
// lists it among its conflicts.
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
	letter := wk.ledger.refusal(d, &rec)
	if err := wk.ledger.fileLetter(ctx, d, letter); err != nil {
		return d.Last, err
	}
	if d.Work == WorkWithheld && !d.lease.Valid() { // storing it took a while
		return d.Last, wk.explained(ctx, d, errWritten)
	}
	refused := letter.refusedRecord(d.Last.Record)
	refused.Waited = d.waited()
	other := rec.BodyHash == "" || d.otherBody(&rec)
	if other {
		rec = *refused
		rec.SetOutcome(order.OutcomeRejected) // order.Merge adds it to the conflicts
	} else {
		rec.Batch, rec.Source = refused.Batch, refused.Source // the same body, from another import
	}
	rec.Letter = d.letter
	stored, err := wk.ledger.writeUnless(ctx, d.token, d.Last, &rec, func(now Entry) (*order.Record, error) {
		if d.Work == WorkWithheld && (!d.lease.Valid() || now.Seq != d.Last.Seq && now.Record.Outcome() != order.OutcomeAccepted) {
			return nil, errWritten // the doubt may be over, or the next delivery counted it; that one decides
		}
		err := wk.ledger.fileLetter(ctx, d, letter)
		rec.Letter = d.letter
		return nil, err
	})
	if err != nil {
		return stored, wk.explained(ctx, d, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err))
	}
	wk.ledger.discardLetter(ctx, d, stored.Record)
	if err = wk.complete(ctx, d, stored.Record, nil); err == nil && other && stored.Record.Listed(d.Intent.ID) != nil {
		refused.Settled = stored.Record.Settled
		stored.Record = refused
	}
	return stored, err
}
