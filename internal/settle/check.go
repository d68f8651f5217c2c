package settle

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
func (q *Protocol) Check(ctx context.Context, ds []*Delivery) error {
	words, err := q.readRecords(ctx, ds)
	if err != nil {
		return err
	}
	now := q.time.Now()
	for i, d := range ds {
		d.Last, d.unreadable = words[i].entry(), words[i].Unreadable
		if d.unreadable != nil {
			d.Work = WorkNone
			continue
		}
		d.History, d.Unexplained = inherit(d)
		d.Work = q.sortOut(d, now)
		d.Allowed = d.Last.Record.Allows(d.Intent.ID) && !d.openNote(order.NoteAttempt) && !d.openNote(order.NoteSuspect)
	}
	return nil
}

// readRecords reads all at once, or one by one where that fails. A record that
// cannot be understood is that delivery's own trouble.
func (q *Protocol) readRecords(ctx context.Context, ds []*Delivery) ([]LastWord, error) {
	tokens := make([]string, len(ds))
	for i, d := range ds {
		tokens[i] = d.token
	}
	if len(ds) > 1 {
		if words, err := q.lastWords(ctx, tokens); err == nil {
			return words, nil
		}
	}
	return q.leaderWords(ctx, tokens)
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

// sortOut is a worker's policy on what order.Admit finds: what a delivery needs (R6, R2).
func (q *Protocol) sortOut(d *Delivery, now time.Time) Work {
	last := d.Last.Record
	admission := order.Admit(last, d.Intent.ID, d.bodyHash())
	switch admission.Standing {
	case order.SettledItself:
		return WorkSettled
	case order.OpenItself:
		switch {
		case last.Note == order.NoteAttempt && now.Before(last.LastAttemptAt.Add(q.cfg.AttemptTimeout)):
			return WorkClaimed
		case now.Before(last.NotBefore):
			return WorkNotYet
		}
	case order.AcceptedBefore:
		if admission.Bodies == order.SameBody {
			return WorkRepeat
		}
		return WorkConflict
	case order.DoubtBefore:
		return WorkWithheld
	}
	return q.fresh(d)
}

// bodyHash is empty for an intent that can never be sent.
func (d *Delivery) bodyHash() string {
	if d.Invalid != nil {
		return ""
	}
	return d.Order.BodyHash()
}

func (q *Protocol) fresh(d *Delivery) Work {
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
