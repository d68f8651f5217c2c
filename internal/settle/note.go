package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// BeginAttempt returns once the broker has confirmed what tells a later delivery that this
// attempt may have created the order (policy park): the mark of a first delivery, otherwise
// a note. With replicas two workers may have the intent at once; the note says which of them
// posts it (R2). h counts this attempt. first reports that this attempt is proven to be our first for this order_no.
func (wk *Worker) BeginAttempt(ctx context.Context, d *Delivery, h order.History) (first bool, err error) {
	proven := d.provenFirst()
	first = proven && h.Attempts <= 1 // what came of an attempt before, a rule may have misread
	if proven && !wk.ledger.store.Replicated() {
		return first, nil
	}
	return first, wk.NoteAttempt(ctx, d, h)
}

// NoteAttempt writes the write-ahead note of one attempt and returns once the broker has
// confirmed it.
func (wk *Worker) NoteAttempt(ctx context.Context, d *Delivery, h order.History) error {
	return wk.note(ctx, d, h, order.NoteAttempt)
}

// NoteBegun writes that the work on a delivery begins whose count the broker
// may lose (mustNoteBegin). A later delivery that finds this note knows that
// this one ended without a report, whatever the broker counts. The order is in
// doubt then, and one more delivery is lost.
func (wk *Worker) NoteBegun(ctx context.Context, d *Delivery) error {
	h := d.History
	h.Lost++
	err := wk.note(ctx, d, h, order.NoteAttempt)
	return wk.explained(ctx, d, err)
}

// NoteSuspect writes that a worker is about to handle the intent alone (R8).
func (wk *Worker) NoteSuspect(ctx context.Context, d *Delivery) error {
	h := d.History
	h.Suspects++
	err := wk.note(ctx, d, h, order.NoteSuspect)
	if err == nil {
		d.History.Suspects = h.Suspects
	}
	return wk.explained(ctx, d, err)
}

// explained returns err. If it is errWritten, this delivery posts nothing, and
// explained notes that.
func (wk *Worker) explained(ctx context.Context, d *Delivery, err error) error {
	if errors.Is(err, errWritten) {
		_, failed := wk.noteUnattempted(ctx, d)
		err = errors.Join(err, failed)
	}
	return err
}

// note writes a note of the given kind over the record that the delivery read last. It
// returns errWritten if that is no longer stored: the other writer may be posting, and
// the next delivery decides on the new record.
func (wk *Worker) note(ctx context.Context, d *Delivery, h order.History, kind order.NoteKind) error {
	rec := wk.record(d, &order.Report{History: h}, order.Settlement{Action: order.ActHandBack, Unsure: h.Unsure})
	rec.Note = kind
	now := wk.ledger.time.Now()
	stored, err := wk.ledger.writeOver(ctx, d.token, d.Last, rec)
	if err != nil {
		return fmt.Errorf("order %s: note not written: %w", d.OrderNo(), err)
	}
	if got := stored.Record; got.Note != kind || got.IntentID != d.Intent.ID || got.Delivered != d.Delivered || !got.SameDelivery(rec) {
		return fmt.Errorf("order %s: note not written: %w", d.OrderNo(), errWritten)
	}
	d.Last, d.looked = stored, now
	return nil
}

// GiveUp notes that a delivery was not worked on: its check failed, or its
// claim ended before anything was sent. Without the note, the redelivery would
// count as a possible attempt. GiveUp leaves the message alone.
//
// It gives back an order whose record cannot be read, with a delay. Such an
// order waits for a newer version or for a person.
func (wk *Worker) GiveUp(ctx context.Context, d *Delivery) error {
	if d.unreadable != nil {
		return errors.Join(fmt.Errorf("order %s: %w", d.OrderNo(), d.unreadable), wk.giveBack(ctx, d, d.Last, wk.ledger.time.Now(), unreadableDelay))
	}
	_, err := wk.noteUnattempted(ctx, d)
	return err
}

// unreadableDelay is the time between two deliveries of an order whose record
// cannot be read.
const unreadableDelay = time.Minute

// noteUnattempted notes that this delivery posted nothing. It decides again for
// each record that it reads, because another delivery may have written
// meanwhile. overtaken says that a later delivery of the intent has.
func (wk *Worker) noteUnattempted(ctx context.Context, d *Delivery) (overtaken bool, err error) {
	began := wk.ledger.time.Now()
	entry, err := wk.ledger.updateRecord(ctx, d.token, func(cur Entry) (*order.Record, error) {
		d.Last.Record = cur.Record
		if overtaken = wk.overtaken(d); overtaken || wk.sharesNumber(d) {
			return nil, nil
		}
		d.History, d.Unexplained = inherit(d)
		return wk.unattemptedNote(d), nil
	})
	if err != nil {
		return false, fmt.Errorf("order %s: note not written: %w", d.OrderNo(), err)
	}
	d.Last, d.looked = entry, began
	return overtaken, nil
}

// sharesNumber reports whether a note of this delivery might explain another one.
// The broker was restarted, so it may have given the same number to another
// worker, which posts without a note of its own if no high-water mark tells it
// of this delivery.
func (wk *Worker) sharesNumber(d *Delivery) bool {
	return !d.marked && d.serverID != wk.ledger.store.ServerID()
}

// unattemptedNote returns the note that a delivery posted nothing, or nil if
// none is needed. An open attempt or suspect note of this intent stays open:
// only its writer or a successor may close it. A note with this delivery's
// number or a later one belongs to another delivery: the broker restarted and
// its counter began again. Nothing needs explaining then.
func (wk *Worker) unattemptedNote(d *Delivery) *order.Record {
	last := d.Last.Record
	switch {
	case last == nil || last.IntentID != d.Intent.ID:
		rec := wk.record(d, &order.Report{History: d.History}, order.Settlement{Action: order.ActHandBack, Unsure: d.History.Unsure})
		rec.Reason = "given up before anything was sent"
		return order.Merge(last, rec)
	case last.Outcome() != order.OutcomeNone,
		(last.Note == order.NoteAttempt || last.Note == order.NoteSuspect) && last.Delivered >= d.counted:
		return nil
	}
	rec := *last
	if d.History.Lost > last.Lost {
		rec.Doubt(lostDelivery)
	}
	rec.LastTimestamp = skipStamps(last.LastTimestamp, d.History.Lost-last.Lost, false)
	rec.Delivered, rec.DeliveryID, rec.Lost = d.Delivered, d.noteID(), d.History.Lost
	return &rec
}
