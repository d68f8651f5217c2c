package queue

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
)

// suspectAfter is the number of earlier deliveries that nothing explains from
// which an intent is handled alone (R8: from the third delivery on).
const suspectAfter = 2

// Check reads the last word on each delivery's order_no and sorts the
// deliveries by what is to be done (R2). It returns an error where the results
// could not be read: then none of the deliveries may be acted on.
func (q *Queue) Check(ctx context.Context, ds []*Delivery) error {
	records, err := q.readRecords(ctx, ds)
	if err != nil {
		return err
	}
	now := q.time.Now()
	for i, d := range ds {
		if d.Last = records[i]; d.unreadable != nil {
			d.Work = WorkNone
			continue
		}
		d.History, d.Unexplained = inherit(d)
		d.Work = q.sortOut(d, now)
		d.Allowed = d.Last.Record.Allows(d.Intent.ID)
	}
	return nil
}

// leaderReads bounds how many single reads are under way at once.
const leaderReads = 32

// readRecords reads in one batch where that is exact, else one by one at the
// leader. A record that cannot be understood is that delivery's own trouble.
func (q *Queue) readRecords(ctx context.Context, ds []*Delivery) ([]Entry, error) {
	out := make([]Entry, len(ds))
	if q.replicas == 1 && len(ds) > 1 {
		if err := q.readBatch(ctx, ds, out); err == nil {
			return out, nil
		}
	}
	return out, q.time.Each(len(ds), leaderReads, func(i int) (err error) {
		out[i], err = q.store.Record(ctx, ds[i].token)
		return ds[i].readable(err)
	})
}

func (q *Queue) readBatch(ctx context.Context, ds []*Delivery, out []Entry) error {
	tokens := make([]string, len(ds))
	for i, d := range ds {
		tokens[i] = d.token
	}
	return q.store.Records(ctx, tokens, func(i int, e Entry, err error) error {
		out[i] = e
		return ds[i].readable(err)
	})
}

// readable keeps an unreadable record to the delivery that it is about.
func (d *Delivery) readable(err error) error {
	d.unreadable = nil
	if errors.Is(err, ErrUnreadable) {
		d.unreadable, err = err, nil
	}
	return err
}

// inherit takes over what is known of the order_no, and counts the deliveries
// of this intent that nothing explains. Doubt and the last timestamp belong to
// the order_no; counts belong to the intent (R3, R9).
func inherit(d *Delivery) (h order.History, unexplained int) {
	last := d.Last.Record
	d.Delivered = d.counted
	lost := int(d.counted) - 1
	if d.Again {
		lost = 1 // or more: who lost the count cannot say
	}
	switch {
	case last == nil:
	case last.IntentID != d.Intent.ID:
		h.Unsure, h.LastTimestamp = last.Unsure, last.LastTimestamp
	default:
		h = last.History
		lost, d.Delivered = sinceNote(d.counted, last)
		if last.Note == order.NoteAttempt || last.Note == order.NoteSuspect {
			h.Unsure = true // its writer did not come back to say what happened
		}
	}
	if lost > 0 {
		h.Unsure = true // a delivery that no note explains may have been posted (R3)
	}
	h.Lost += lost
	return h, h.Lost
}

// sinceNote gives how many deliveries came after the note and ended without
// one, and the number of this delivery. Where the broker counts no further than
// the note, it lost its counts since: then at least one is missing, or the
// note's own, which an open attempt note tells of by itself.
func sinceNote(counted uint64, last *order.Record) (lost int, delivered uint64) {
	switch {
	case counted > last.Delivered:
		return int(counted - last.Delivered - 1), counted
	case last.Note == order.NoteAttempt:
		return 0, last.Delivered + 1
	default:
		return 1, last.Delivered + 1
	}
}

// sortOut is the table of R6 and R2: intent against last word.
func (q *Queue) sortOut(d *Delivery, now time.Time) Work {
	last := d.Last.Record
	if last == nil {
		return q.fresh(d)
	}
	same := last.IntentID == d.Intent.ID
	outcome := last.Outcome()
	switch {
	case last.Settles(d.Intent.ID):
		return WorkSettled
	case d.openNote(order.NoteAttempt) && now.Before(last.LastAttemptAt.Add(q.cfg.AttemptTimeout)):
		return WorkClaimed
	case same && now.Before(last.NotBefore):
		return WorkNotYet
	case outcome == order.OutcomeAccepted && d.Invalid == nil && d.Order.BodyHash() == last.BodyHash:
		return WorkRepeat
	case outcome == order.OutcomeAccepted:
		return WorkConflict
	case outcome == order.OutcomeUnknown && !last.Allows(d.Intent.ID):
		return WorkWithheld
	default:
		return q.fresh(d)
	}
}

func (q *Queue) fresh(d *Delivery) Work {
	switch {
	case d.Unexplained >= suspectAfter, d.openNote(order.NoteSuspect):
		return WorkSuspect
	case d.Invalid != nil:
		return WorkInvalid
	default:
		return WorkSubmit
	}
}

// openNote: the last word is a note of this kind about this very intent.
func (d *Delivery) openNote(kind order.NoteKind) bool {
	last := d.Last.Record
	return last != nil && last.IntentID == d.Intent.ID && last.Outcome() == order.OutcomeNone && last.Note == kind
}
