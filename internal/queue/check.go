package queue

import (
	"context"
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
	now := time.Now()
	for i, d := range ds {
		d.Last = records[i]
		d.History, d.Unexplained = inherit(d)
		d.Work = q.sortOut(d, now)
		d.Allowed = d.Last.Record != nil && d.Last.Record.Allowed
	}
	return nil
}

// readRecords reads in one batch where that is exact, else one by one.
func (q *Queue) readRecords(ctx context.Context, ds []*Delivery) ([]Entry, error) {
	out := make([]Entry, len(ds))
	if q.cfg.Replicas == 1 && len(ds) > 1 {
		if err := q.readBatch(ctx, ds, out); err == nil {
			return out, nil
		}
	}
	for i, d := range ds {
		var err error
		if out[i], err = q.readRecord(ctx, d.token); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (q *Queue) readBatch(ctx context.Context, ds []*Delivery, out []Entry) error {
	subjects := make([]string, len(ds))
	for i, d := range ds {
		subjects[i] = q.n.resPre + d.token
	}
	found, err := q.lastMsgs(ctx, q.n.results, subjects)
	if err != nil {
		return err
	}
	for i, subject := range subjects {
		raw := found[subject]
		if raw == nil {
			continue
		}
		if out[i], err = decodeRecord(raw); err != nil {
			return err
		}
	}
	return nil
}

// inherit takes over what is known of the order_no. Doubt and the last
// timestamp belong to the order_no; counts belong to the intent (R3, R9).
func inherit(d *Delivery) (order.History, int) {
	last := d.Last.Record
	earlier := int(d.Delivered) - 1
	if last == nil {
		return order.History{Unsure: earlier > 0}, earlier
	}
	if last.IntentID != d.Intent.ID {
		return order.History{Unsure: last.Unsure || earlier > 0, LastTimestamp: last.LastTimestamp}, earlier
	}
	h := last.History
	unexplained := 0
	if d.Delivered > last.Delivered+1 {
		unexplained = int(d.Delivered - last.Delivered - 1)
		h.Unsure = true // a delivery that no note explains may have been posted (R3)
	}
	if last.Note == order.NoteAttempt || last.Note == order.NoteSuspect {
		h.Unsure = true // its writer did not come back to say what happened
	}
	return h, unexplained
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
	case same && outcome != order.OutcomeNone:
		return WorkSettled
	case same && last.Note == order.NoteAttempt && now.Before(last.LastAttemptAt.Add(q.cfg.AttemptTimeout)):
		return WorkClaimed
	case same && now.Before(last.NotBefore):
		return WorkNotYet
	case outcome == order.OutcomeAccepted && d.Invalid == nil && d.Order.BodyHash() == last.BodyHash:
		return WorkRepeat
	case outcome == order.OutcomeAccepted:
		return WorkConflict
	case outcome == order.OutcomeUnknown && !last.Allowed:
		return WorkWithheld
	default:
		return q.fresh(d)
	}
}

func (q *Queue) fresh(d *Delivery) Work {
	switch {
	case d.Unexplained >= suspectAfter:
		return WorkSuspect
	case d.Invalid != nil:
		return WorkInvalid
	default:
		return WorkSubmit
	}
}
