package settle

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"orderpost/internal/order"
)

// Settle carries out what order.Decide decided for a delivery. It stores the dead
// letter of a failure, writes the outcome, which names the letter, and then acknowledges the intent (R4), each
// confirmed by JetStream before the next. After a crash between two steps,
// Check finds in the redelivery what is missing. Settle returns the record that
// the stream holds afterwards. It adds to r.History what the settlement says about it; a
// repetition takes no doubt back.
//
// While the broker is out of reach, Settle tries again until ctx ends.
// ErrStorage means that the broker refuses results. Nothing more may be posted
// until it stores them again (R10).
func (wk *Worker) Settle(ctx context.Context, d *Delivery, r *order.Report, s order.Settlement) (Entry, error) {
	lapse := func() { // once the claim has ended, the new owner decides the rest (R7)
		if s.Outcome != order.OutcomeAccepted && !d.lease.Valid() {
			s = order.Settlement{Action: order.ActMerge, Unsure: s.Unsure}
		}
	}
	lapse()
	looked := r.End == order.EndLookup || r.End == order.EndAbsent // what its body does to a worker, it does not show
	if !looked {
		r.History.Lost = 0 // this delivery ends with a report
	}
	if s.Action == order.ActMerge && wk.sharesNumber(d) {
		r.History.Doubt("the worker lost its claim while it posted the order")
		s.Unsure, r.History.Lost = true, 1
	}
	if !looked && (s.Action == order.ActDelay || s.Action == order.ActHandBack) {
		r.History.Suspects = 0
	}
	decided := func(now *order.Record) (*order.Record, error) { // the record to write over now, its letter stored
		rec := wk.record(d, r, s)
		failed := failedAs(now, rec)
		if failed == nil {
			return rec, nil
		}
		err := wk.ledger.fileLetter(ctx, d, newLetter(d, failed, r.Trail))
		lapse() // it took a while
		if rec = wk.record(d, r, s); failedAs(now, rec) != nil {
			rec.Letter = d.letter
		}
		return rec, err
	}
	rec, err := decided(d.Last.Record)
	if err != nil {
		return d.Last, err
	}
	unsent := r.History.Attempts == d.History.Attempts // what the outcome rests on was read, not answered
	began := wk.ledger.time.Now()
	stored, err := wk.ledger.writeUnless(ctx, d.token, d.Last, rec, func(now Entry) (*order.Record, error) {
		lapse() // the claim may end while the broker is out of reach
		if unsent && s.Outcome != order.OutcomeNone && now.Seq != d.Last.Seq {
			return nil, errWritten
		}
		return decided(now.Record)
	})
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	wk.absences.known(d.token, stored.Record.AbsentAt, wk.ledger.time.Now())
	wk.ledger.discardLetter(ctx, d, stored.Record)
	outcome := stored.Record.Outcome()
	switch {
	case s.Action == order.ActMerge && outcome != order.OutcomeAccepted: // the message belongs to the new owner
		return stored, wk.ledger.ensureLetter(ctx, d, stored.Record, r.Trail)
	case d.overtakenBy(stored.Record):
		return stored, wk.giveBack(ctx, d, stored, began, 0) // the next check finds the other intent's outcome
	case outcome != order.OutcomeNone:
		return stored, wk.complete(ctx, d, stored.Record, r.Trail)
	case stored.Record.IntentID == d.Intent.ID && stored.Record.Delivered > d.Delivered:
		return stored, nil // a later delivery has it, and a NAK would end that one's claim (R7)
	case s.Action == order.ActDelay:
		return stored, wk.giveBack(ctx, d, stored, began, r.Delay)
	default:
		return stored, wk.giveBack(ctx, d, stored, began, 0)
	}
}

// failedAs returns the record that the letter of a delivery is about, once rec is written over now; nil = that needs none. A
// cancellation, or a note that comes late, becomes unknown under doubt (R3).
func failedAs(now, rec *order.Record) *order.Record {
	switch {
	case rec.Outcome() == order.OutcomeAccepted:
		return nil
	case rec.Outcome().NeedsLetter():
		return rec
	}
	if next := order.Merge(now, rec); next.NeedsLetterOf(rec.IntentID) && next.LetterOf(rec.IntentID) == 0 {
		return next
	}
	return nil
}

// overtakenBy reports whether an earlier intent of the order_no was settled
// while this one was handled, and our note gave way to that outcome. This
// intent has no outcome yet.
func (d *Delivery) overtakenBy(stored *order.Record) bool {
	return stored.Outcome() != order.OutcomeNone && !stored.Settles(d.Intent.ID) && d.After(stored.Position, d.Birth)
}

// noteID returns what the notes of a delivery are told by. It begins with the run of the broker that delivered.
func (d *Delivery) noteID() string {
	if d.id == "" {
		d.id = runOf(d.serverID) + newWriteID()[:8]
	}
	return d.id
}

// runOf names a run of the broker, as far as the deliveries of one order_no must be told apart.
func runOf(serverID string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(serverID))
	return fmt.Sprintf("%08x", h.Sum32())[:5]
}

// record returns the record of a submission's end.
func (wk *Worker) record(d *Delivery, r *order.Report, s order.Settlement) *order.Record {
	now := wk.ledger.time.Now().UTC()
	rec := &order.Record{
		OrderNo: d.OrderNo(), Verdict: r.Verdict, Status: r.Status, Response: r.Response,
		Reason: r.Reason, Said: r.Said, Error: r.Error, API: r.API, History: r.History,
		Position: d.Position, Batch: d.Intent.Batch, Source: d.Intent.Source,
		Worker: wk.ledger.cfg.Worker, IntentID: d.Intent.ID, Delivered: d.Delivered, Proven: r.Final, Waited: d.waited(),
	}
	if d.Order != nil {
		rec.BodyHash = d.Order.BodyHash()
	}
	if rec.Unsure = s.Unsure; s.Unsure && !r.History.Unsure {
		rec.Doubt(r.Reason)
	}
	rec.SetOutcome(s.Outcome)
	switch {
	case s.Outcome != order.OutcomeNone:
		rec.SettledAt = now
		if s.Outcome == order.OutcomeCancelled {
			rec.By = d.cancelledBy
		}
	case s.Action == order.ActDelay:
		rec.Note, rec.NotBefore = order.NoteDelayed, now.Add(r.Delay)
	default:
		rec.Note = order.NoteHandedBack
	}
	if rec.Note != order.NoteNone {
		rec.DeliveryID = d.noteID()
	}
	return rec
}

// recordFor returns the current record with this intent as the one that it
// settles, without the other intents that it lists: what becomes of those, order.Merge takes from
// the record that is stored by then.
func (wk *Worker) recordFor(d *Delivery) order.Record {
	rec := *d.Last.Record
	rec.Conflicts = nil
	rec.IntentID, rec.Position, rec.Waited, rec.Unqueued = d.Intent.ID, d.Position, d.waited(), false
	return rec
}

// complete makes sure of the dead letter of a settled intent and then
// acknowledges the intent. For a redelivery of an intent that is settled
// already, it is the whole handling.
func (wk *Worker) complete(ctx context.Context, d *Delivery, rec *order.Record, trail []order.Attempt) error {
	if err := wk.ledger.ensureLetter(ctx, d, rec, trail); err != nil {
		return fmt.Errorf("order %s: dead letter: %w", d.OrderNo(), err)
	}
	return wk.ack(d)
}

// otherBody reports whether the accepted order differs from the one that this
// intent asks for.
func (d *Delivery) otherBody(accepted *order.Record) bool {
	return accepted.BodyHash != "" && (d.Invalid != nil || d.Order.BodyHash() != accepted.BodyHash)
}

// Complete handles a delivery whose intent is settled already (WorkSettled). A
// producer that publishes with the same ID again after the first intent was
// settled gets a second intent stored. Complete does not judge that one again
// but counts it (R11).
func (wk *Worker) Complete(ctx context.Context, d *Delivery) error {
	last := d.Last.Record
	counted, rec := last.Position, wk.recordFor(d)
	if last.Unqueued && last.Outcome() == order.OutcomeCancelled && d.Redelivered() && d.Invalid == nil {
		rec.TakeBack(d.Order.BodyHash()) // the feeder that withdrew it did not know that it was in the queue
	}
	if c := last.Listed(d.Intent.ID); c != nil {
		counted, rec = c.Position, *wk.ledger.refusal(d, last).refusedRecord(last)
	}
	if d.After(counted, d.Birth) {
		stored, err := wk.ledger.writeRecord(ctx, d.token, d.Last, &rec)
		if err != nil {
			return fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
		}
		d.Last = stored
	}
	return wk.complete(ctx, d, d.Last.Record, nil)
}

// HandBack gives back a delivery whose time has not come (WorkNotYet,
// WorkClaimed). The record keeps what it says. If a later delivery has settled the
// intent meanwhile, or works on it, the message is that one's to answer (R7).
func (wk *Worker) HandBack(ctx context.Context, d *Delivery, delay time.Duration) error {
	overtaken, err := wk.noteUnattempted(ctx, d)
	if err != nil {
		return err
	}
	if overtaken || d.Last.Record.Settles(d.Intent.ID) {
		return nil
	}
	return wk.giveBack(ctx, d, d.Last, d.looked, delay)
}

// Pass acknowledges a delivery whose intent was settled before (WorkPassed).
func (wk *Worker) Pass(_ context.Context, d *Delivery) error { return wk.ack(d) }

// ack acknowledges the message. ack and giveBack do nothing once the claim has
// ended. The message belongs to another worker then, and a late answer would
// delete or redeliver it (R7).
func (wk *Worker) ack(d *Delivery) error {
	if !d.lease.Valid() {
		return nil
	}
	if err := d.answer.Ack(); err != nil {
		wk.ledger.log.Debug().Err(err).Msg("acknowledgement not sent; the intent is delivered again and its result is found")
		return nil
	}
	wk.acked.put(d.Seq, wk.ledger.time.Now(), wk.ledger.link())
	return nil
}

// giveBack gives the message back with a NAK, after a write that was begun at a time and left this
// record. It looks again as Fence does: the process may have been frozen since, and another worker may
// have the order. It sends nothing to another run
// of the broker than the one that delivered. That run may have forgotten the
// delivery and given the order to another worker. The order then comes back
// when its claim ends.
func (wk *Worker) giveBack(ctx context.Context, d *Delivery, last Entry, since time.Time, delay time.Duration) error {
	d.Last, d.looked = last, since
	err := wk.Fence(ctx, d)
	if err != nil || d.serverID != wk.ledger.store.ServerID() {
		return nil
	}
	if delay == 0 {
		wk.ledger.gaveBack.Add(1)
	}
	if wk.ledger.purging.Load() { // a purge makes the broker forget what waits to be delivered again (R14)
		delay = max(delay, RequestTimeout)
	}
	if delay > 0 {
		err = d.answer.NakWithDelay(delay)
	} else {
		err = d.answer.Nak()
	}
	if err != nil {
		wk.ledger.log.Debug().Err(err).Msg("order not given back; it comes back when its claim ends")
	}
	return nil
}

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
		rec.Dropped = false
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
