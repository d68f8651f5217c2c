package settle

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"orderpost/internal/order"
)

// errLapsed means that the claim has ended. The new owner files the letter.
var errLapsed = errors.New("the claim on the order is over")

// fileLetter stores the letter of a delivery, unless a letter about the same
// intent is stored that says as much. It adds the history of a letter that it
// replaces.
//
// Once the claim has ended it stores nothing and returns errLapsed. By then
// another worker may have found the order accepted, removed its letter and
// acknowledged its intent. Nobody would remove a letter that is filed after
// that. The same holds if another intent's letter is stored and this intent is
// not: a worker that was frozen acknowledged it late, and the other one came
// after it.
func (wk *Worker) fileLetter(ctx context.Context, d *Delivery, l *Letter) error {
	own, token := l.Earlier, d.token
	var have *Letter
	for {
		if !d.lease.Valid() {
			return errLapsed
		}
		l.Earlier = own // the letter of an earlier round may be gone
		if have != nil {
			if have.IntentID == l.IntentID && !l.raises(have) && !l.judgedAnew(have) && !l.turnedConflict(have) {
				return nil
			}
			if have.IntentID != l.IntentID {
				stored, err := wk.stillStored(ctx, d)
				if err != nil || !stored || !d.lease.Valid() { // asking took a while
					return cmp.Or(err, errLapsed)
				}
			}
			l.inheritFrom(have)
		}
		err := wk.ledger.putLetter(ctx, token, l, have)
		if err == nil || errors.Is(err, ErrStorage) || ctx.Err() != nil {
			return err
		}
		if have, err = wk.ledger.rereadLetter(ctx, token); err != nil {
			return err
		}
	}
}

// raises reports whether l says more than have, the letter of the same intent:
// have says that the order was not created, and the result was raised to
// unknown since then (R1).
func (l *Letter) raises(have *Letter) bool {
	return l.Outcome == order.OutcomeUnknown && have.Outcome != order.OutcomeUnknown && !have.Conflict
}

// turnedConflict reports whether have, the letter of the same intent, was filed
// while an earlier intent of the order_no was in doubt, and that one was accepted
// since, with another body.
func (l *Letter) turnedConflict(have *Letter) bool { return l.Conflict && !have.Conflict }

// judgedAnew reports whether l is about a later submission than have, under the
// same ID. Another intent was settled in between, such as a cancelled one, so
// the intent was handled again. A settled intent that is only stored again keeps
// its outcome and its letter (R11). Or have was filed to withhold the intent, whose
// record was not written, and the next delivery decided otherwise.
func (l *Letter) judgedAnew(have *Letter) bool {
	if have.Reason == reasonWithheld && l.Reason != reasonWithheld {
		switch {
		case l.Same(have.Position) && l.Outcome != have.Outcome:
			return true
		case l.Outcome == have.Outcome && l.Attempts == have.Attempts && l.LastTimestamp == have.LastTimestamp:
			return false // it was stored again, and its outcome is the one that withheld it
		}
	}
	return !have.Conflict && l.After(have.Position, l.Birth) && !l.FiledAt.Equal(have.FiledAt)
}

// newLetter returns the letter of a delivery with the given record.
func newLetter(d *Delivery, r *order.Record, trail []order.Attempt) *Letter {
	if len(trail) > maxTrail {
		trail = trail[len(trail)-maxTrail:]
	}
	l := &Letter{
		OrderNo: r.OrderNo, Outcome: r.Outcome(), Reason: r.Reason, Error: r.Error,
		Verdict: r.Verdict, Status: r.Status, Response: r.Response, Said: r.Said,
		History: r.History, Trail: trail,
		IntentID: d.Intent.ID, Batch: d.Intent.Batch, Source: d.Intent.Source, Worker: r.Worker,
		Position: r.Position, FiledAt: r.SettledAt,
		Subject: d.msg.Subject, Headers: boundedHeaders(d.msg.Header),
		Body: d.Intent.Body,
	}
	if d.Order != nil {
		l.BodyHash = d.Order.BodyHash()
	}
	l.inheritFromHeader(d.msg.Header)
	return l
}

// boundedHeaders returns as many of the intent's headers as fit.
func boundedHeaders(h Header) map[string][]string {
	out := make(map[string][]string, len(h))
	size := 0
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			size += len(k) + len(v)
		}
		if size > maxHeaderBytes {
			break
		}
		out[k] = h[k]
	}
	return out
}

// refusal returns the letter of an intent that must not be submitted. rec is
// the record that forbids it.
func (lg *Ledger) refusal(d *Delivery, rec *order.Record, why Work) *Letter {
	l := newLetter(d, rec, nil)
	l.FiledAt, l.Position = lg.time.Now().UTC(), d.Position
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

// fileConflict stores the letter of a settled intent that a late acceptance made a conflict, if a
// worker did not: its acknowledgement had told the broker not to deliver it again.
func (lg *Ledger) fileConflict(ctx context.Context, m *Message, r *order.Record) error {
	d := &Delivery{msg: m, Position: r.ConflictOf(m.IntentID()).Position}
	d.Invalid = lg.readIntent(d)
	have, err := lg.rereadLetter(ctx, d.token)
	if err != nil {
		return err
	}
	if left, err := lg.hasLeft(ctx, m); err != nil || left { // a later intent may have filed what we read
		return err
	}
	l := lg.refusal(d, r, WorkConflict)
	if have != nil {
		l.inheritFrom(have)
	}
	if err = lg.putLetter(ctx, d.token, l, have); err != nil {
		return err
	}
	now, err := lg.rereadRecord(ctx, d.token)
	if err != nil {
		return err
	}
	return lg.removeLetter(ctx, d.token, now.Record) // which the API may have accepted in this body meanwhile
}

// refusedRecord returns what became of a refused intent as a record of its own.
// stood is the record that the intent conflicts with.
func (l *Letter) refusedRecord(stood *order.Record) *order.Record {
	rec := &order.Record{OrderNo: l.OrderNo, Reason: l.Reason, Error: l.Error, Position: l.Position, SettledAt: l.FiledAt,
		Batch: l.Batch, Source: l.Source, Worker: stood.Worker, IntentID: l.IntentID, BodyHash: l.BodyHash, Settled: stood.Settled}
	rec.SetOutcome(l.Outcome)
	return rec
}
