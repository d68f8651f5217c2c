package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// Settle carries out what order.Decide said about a delivery: outcome to the
// results, then the dead letter, then the ack (R4), each confirmed by JetStream
// before the next. A crash between any two leads to a redelivery that Check
// resolves. It returns the record that stands afterwards.
//
// It goes on through a broker out of reach until ctx ends. ErrStorage means
// that the broker refuses results: nothing more may be posted until it takes
// them again (R10).
func (q *Protocol) Settle(ctx context.Context, d *Delivery, r order.Report, s order.Settlement) (Entry, error) {
	lapsed := func() bool { // the rest is its new owner's to say (R7)
		if s.Action == order.ActMerge || s.Outcome == order.OutcomeAccepted || d.lease.Valid() {
			return false
		}
		s = order.Settlement{Action: order.ActMerge, Unsure: s.Unsure}
		return true
	}
	lapsed()
	r.History.Lost = 0 // this delivery was brought to an end
	if s.Action == order.ActDelay || s.Action == order.ActHandBack {
		r.History.Suspects = 0
	}
	stored, err := q.writeUnless(ctx, d.token, d.Last, q.record(d, r, s), func() *order.Record {
		if !lapsed() { // as it may while the broker is out of reach
			return nil
		}
		rec := q.record(d, r, s)
		return &rec
	})
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	outcome := stored.Record.Outcome()
	switch {
	case s.Action == order.ActMerge && outcome != order.OutcomeAccepted:
		return stored, nil // message and letter are somebody else's
	case d.passedOver(stored.Record):
		return stored, q.giveBack(d, 0) // its next check finds what stands in its way, and counts it
	case outcome != order.OutcomeNone:
		return stored, q.complete(ctx, d, stored, r.Trail)
	case s.Action == order.ActDelay:
		return stored, q.giveBack(d, r.Delay)
	default:
		return stored, q.giveBack(d, 0)
	}
}

// passedOver: an earlier intent of the order_no was settled while this one was
// worked on, and our note gave way to that outcome. This intent has none yet.
func (d *Delivery) passedOver(stored *order.Record) bool {
	return stored.Outcome() != order.OutcomeNone && !stored.Settles(d.Intent.ID) && !d.StoredAt.Before(stored.EnqueuedAt)
}

// record is what the submission's end looks like in the results stream.
func (q *Protocol) record(d *Delivery, r order.Report, s order.Settlement) order.Record {
	now := q.time.Now().UTC()
	rec := order.Record{
		OrderNo: d.OrderNo(), Verdict: r.Verdict, Status: r.Status, Response: r.Response,
		Reason: r.Reason, Error: r.Error, History: r.History,
		EnqueuedAt: d.StoredAt.UTC(), Batch: d.Intent.Batch, Source: d.Intent.Source,
		Worker: q.cfg.Worker, IntentID: d.Intent.ID, Delivered: d.Delivered, Proven: r.Final,
	}
	if d.Order != nil {
		rec.BodyHash = d.Order.BodyHash()
	}
	rec.Unsure = s.Unsure
	rec.SetOutcome(s.Outcome)
	switch {
	case s.Outcome != order.OutcomeNone:
		rec.SettledAt = now
	case s.Action == order.ActDelay:
		rec.Note, rec.NotBefore = order.NoteDelayed, now.Add(r.Delay)
	default:
		rec.Note = order.NoteHandedBack
	}
	return rec
}

// complete makes sure of the dead letter of a settled intent, then
// acknowledges it. It is also the whole handling of a redelivery of an intent
// that is settled already.
func (q *Protocol) complete(ctx context.Context, d *Delivery, stored Entry, trail []order.Attempt) error {
	rec := stored.Record
	mine := rec.IntentID == d.Intent.ID
	var err error
	switch {
	case rec.Outcome() == order.OutcomeAccepted && mine && d.otherBody(rec), rec.ConflictOf(d.Intent.ID) != nil:
		err = q.fileLetter(ctx, d, q.refusal(d, rec, WorkConflict))
	case rec.Outcome() == order.OutcomeAccepted && d.mayHaveLetter(stored):
		err = q.removeLetter(ctx, d.token)
	case rec.NeedsLetter() && mine:
		err = q.fileFailure(ctx, d, newLetter(d, rec, trail))
	}
	switch {
	case errors.Is(err, errLapsed):
		return nil // the message comes back, to whoever has it next
	case err != nil:
		return fmt.Errorf("order %s: dead letter: %w", d.OrderNo(), err)
	}
	return q.ack(d)
}

// fileFailure files the letter of a failed result. A late acceptance that was
// written meanwhile found no letter to remove, so that it is looked for again
// afterwards.
func (q *Protocol) fileFailure(ctx context.Context, d *Delivery, l *Letter) error {
	if err := q.fileLetter(ctx, d, l); err != nil {
		return err
	}
	now, err := q.rereadRecord(ctx, d.token)
	if err == nil && now.Record.Outcome() == order.OutcomeAccepted {
		return q.removeLetter(ctx, d.token)
	}
	return err
}

// mayHaveLetter: an order_no without any record before, delivered once, cannot
// have a dead letter.
func (d *Delivery) mayHaveLetter(stored Entry) bool {
	return d.Last.Record != nil || stored.over != nil || d.Delivered > 1 || d.Again
}

// otherBody: the accepted order is not the one that this intent asks for.
func (d *Delivery) otherBody(accepted *order.Record) bool {
	return accepted.BodyHash != "" && (d.Invalid != nil || d.Order.BodyHash() != accepted.BodyHash)
}

// Complete handles a delivery whose intent is settled already (WorkSettled). A
// producer that publishes with the same ID again, after the first was settled,
// gets it stored a second time: not judged anew, but counted (R11).
func (q *Protocol) Complete(ctx context.Context, d *Delivery) error {
	last := d.Last.Record
	at, rec := last.EnqueuedAt, q.recordFor(d)
	if c := last.ConflictOf(d.Intent.ID); c != nil {
		at, rec = c.EnqueuedAt, *q.refusal(d, last, WorkConflict).end(last)
	}
	if !at.IsZero() && d.StoredAt.After(at) {
		stored, err := q.writeRecord(ctx, d.token, d.Last, rec)
		if err != nil {
			return fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
		}
		d.Last = stored
	}
	return q.complete(ctx, d, d.Last, nil)
}

// Repeat settles an intent that asks again, with the same body, for an order
// that was accepted (WorkRepeat): it is done, and counted.
func (q *Protocol) Repeat(ctx context.Context, d *Delivery) (Entry, error) {
	rec := q.recordFor(d)
	stored, err := q.writeRecord(ctx, d.token, d.Last, rec)
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	return stored, q.complete(ctx, d, stored, nil)
}

// Refuse settles an intent that may not be submitted although it is valid:
// a conflict with an accepted order, or one withheld because the order's
// outcome is unknown. The result stays, with this intent among its conflicts
// where it asks for another body. The letter comes first, since the result
// alone would not tell a redelivery that the letter is missing.
//
// The record that it returns says what became of this intent: rejected where it
// was a conflict, although the result of the order_no stays accepted.
func (q *Protocol) Refuse(ctx context.Context, d *Delivery) (Entry, error) {
	rec := q.recordFor(d)
	letter := q.refusal(d, &rec, d.Work)
	refused := letter.end(d.Last.Record)
	if letter.Conflict {
		rec = *refused // order.Merge puts it beside the acceptance
	} else if d.otherBody(&rec) {
		rec.Refuse(refused)
	}
	if err := q.fileLetter(ctx, d, letter); err != nil {
		return d.Last, fmt.Errorf("order %s: dead letter not written: %w", d.OrderNo(), err)
	}
	stored, err := q.writeRecord(ctx, d.token, d.Last, rec)
	if err != nil {
		return stored, fmt.Errorf("order %s: result not written: %w", d.OrderNo(), err)
	}
	if d.Work == WorkWithheld && stored.Record.Outcome() == order.OutcomeAccepted { // a late acceptance came in between
		if err := q.removeLetter(ctx, d.token); err != nil {
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

// end is what became of a refused intent, as a record of its own; stood is the
// one that stood in its way.
func (l *Letter) end(stood *order.Record) *order.Record {
	rec := &order.Record{OrderNo: l.OrderNo, Reason: l.Reason, Error: l.Error, EnqueuedAt: l.EnqueuedAt, SettledAt: l.FiledAt,
		Batch: l.Batch, Source: l.Source, Worker: stood.Worker, IntentID: l.IntentID, BodyHash: l.BodyHash, Settled: stood.Settled}
	rec.SetOutcome(l.Outcome)
	return rec
}

// refusal is the letter of an intent that may not be submitted. rec is the
// record that stands in its way.
func (q *Protocol) refusal(d *Delivery, rec *order.Record, why Work) *Letter {
	l := newLetter(d, rec, nil)
	l.IntentID, l.FiledAt, l.BodyHash = d.Intent.ID, q.time.Now().UTC(), ""
	l.Batch, l.Source, l.EnqueuedAt = d.Intent.Batch, d.Intent.Source, d.StoredAt.UTC()
	if d.Order != nil {
		l.BodyHash = d.Order.BodyHash()
	}
	if d.Invalid != nil {
		l.Error = d.Invalid.Error()
	}
	if why == WorkConflict {
		l.Outcome, l.Conflict = order.OutcomeRejected, true
		l.Reason = "conflict: the order_no was accepted before with another body"
	} else {
		l.Reason = "withheld: the order_no's earlier outcome is unknown, and nobody allowed another attempt"
	}
	return l
}

// recordFor returns the record as it is, with this intent counted as settled by it.
func (q *Protocol) recordFor(d *Delivery) order.Record {
	rec := *d.Last.Record
	rec.IntentID, rec.EnqueuedAt = d.Intent.ID, d.StoredAt.UTC()
	return rec
}

// GiveUp explains a delivery that was not worked on (its check failed, or its
// claim was lost before anything was sent), so that its redelivery is not
// taken for a possible attempt. The message is left alone.
//
// An order whose last word cannot be read is given back for a while: it can
// only wait for a newer version, or for a person.
func (q *Protocol) GiveUp(ctx context.Context, d *Delivery) error {
	if d.unreadable != nil {
		return errors.Join(fmt.Errorf("order %s: %w", d.OrderNo(), d.unreadable), q.giveBack(d, unreadableDelay))
	}
	return q.explain(ctx, d)
}

const unreadableDelay = time.Minute

// explain notes that this delivery did nothing. It judges anew by each last word
// that it finds: what is written meanwhile may be another delivery's.
func (q *Protocol) explain(ctx context.Context, d *Delivery) error {
	entry, err := q.amend(ctx, d.token, func(cur *order.Record) (*order.Record, error) {
		if d.Last.Record = cur; d.life != q.store.Life() {
			// Its number may be another delivery's by now, which this one must
			// not explain.
			return nil, nil
		}
		d.History, _ = inherit(d)
		return q.explanation(d), nil
	})
	if err != nil {
		return fmt.Errorf("order %s: note not written: %w", d.OrderNo(), err)
	}
	d.Last = entry
	return nil
}

// explanation is that note; nil where none is needed. An open claim or suspicion
// of this intent stays open: its writer's, or a successor's, to close. One that
// was noted under this delivery's number, or a later one, is another delivery's,
// since the broker was killed and counts anew: there is nothing to explain.
func (q *Protocol) explanation(d *Delivery) *order.Record {
	last := d.Last.Record
	switch {
	case last == nil || last.IntentID != d.Intent.ID:
		rec := q.record(d, order.Report{History: d.History}, order.Settlement{Action: order.ActHandBack, Unsure: d.History.Unsure})
		rec.Reason = "given up before anything was sent"
		return order.Merge(last, &rec)
	case last.Outcome() != order.OutcomeNone,
		(last.Note == order.NoteAttempt || last.Note == order.NoteSuspect) && last.Delivered >= d.counted:
		return nil
	}
	rec := *last
	rec.Unsure = last.Unsure || d.History.Lost > last.Lost
	rec.Delivered, rec.Lost = d.Delivered, d.History.Lost
	return &rec
}

// HandBack gives a delivery back whose time has not come, as for WorkNotYet
// and WorkClaimed; what the last word says stays.
func (q *Protocol) HandBack(ctx context.Context, d *Delivery, delay time.Duration) error {
	if err := q.explain(ctx, d); err != nil {
		return err
	}
	return q.giveBack(d, delay)
}

// ack and giveBack do nothing once the claim is over: the message is somebody
// else's then, and a late answer would settle or redeliver it under their
// hands (R7).
func (q *Protocol) ack(d *Delivery) error {
	if !d.lease.Valid() {
		return nil
	}
	if err := d.answer.Ack(); err != nil {
		q.log.Debug().Err(err).Msg("ack not sent; the redelivery will be resolved by the result")
	}
	return nil
}

// giveBack is silent to another broker than the one that delivered, too: that
// one may have forgotten the delivery, and have given the order to somebody
// else. Then the order comes back when its claim ends.
func (q *Protocol) giveBack(d *Delivery, delay time.Duration) error {
	if !d.lease.Valid() || d.life != q.store.Life() {
		return nil
	}
	var err error
	if delay > 0 {
		err = d.answer.NakWithDelay(delay)
	} else {
		err = d.answer.Nak()
	}
	if err != nil {
		q.log.Debug().Err(err).Msg("order not given back; it comes back when its claim ends")
	}
	return nil
}

// NoteAttempt writes the write-ahead note of one attempt (policy park), and
// returns when JetStream confirmed it. first is true where the note proves
// that nobody of ours attempted this order_no before.
func (q *Protocol) NoteAttempt(ctx context.Context, d *Delivery, h order.History) (first bool, err error) {
	return q.note(ctx, d, h, order.NoteAttempt)
}

// NoteBegun writes that the work on a delivery begins that the broker may lose
// count of (MustNoteBegin). A later delivery that finds this note knows that
// this one did not come to its end, whatever the broker counts: the order is in
// doubt, and one more delivery is lost.
func (q *Protocol) NoteBegun(ctx context.Context, d *Delivery) error {
	h := d.History
	h.Lost++
	_, err := q.note(ctx, d, h, order.NoteAttempt)
	return err
}

// NoteSuspect writes that the intent is about to be handled alone (R8).
func (q *Protocol) NoteSuspect(ctx context.Context, d *Delivery) error {
	h := d.History
	h.Suspects++
	_, err := q.note(ctx, d, h, order.NoteSuspect)
	if err == nil {
		d.History.Suspects = h.Suspects
	}
	return err
}

func (q *Protocol) note(ctx context.Context, d *Delivery, h order.History, kind order.NoteKind) (first bool, err error) {
	rec := q.record(d, order.Report{History: h}, order.Settlement{Action: order.ActHandBack, Unsure: h.Unsure})
	rec.Note = kind
	stored, err := q.writeRecord(ctx, d.token, d.Last, rec)
	if err != nil {
		return false, fmt.Errorf("order %s: note not written: %w", d.OrderNo(), err)
	}
	if got := stored.Record; got.Note != kind || got.IntentID != d.Intent.ID || got.Delivered != d.Delivered || got.Worker != q.cfg.Worker {
		return false, fmt.Errorf("order %s: somebody else settled it meanwhile: %w", d.OrderNo(), order.ErrLeaseLost)
	}
	first = d.Last.Record == nil && d.Delivered == 1 && !d.Again
	d.Last = stored
	return first, nil
}
