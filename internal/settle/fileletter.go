package settle

import (
	"maps"
	"slices"

	"orderpost/internal/order"
)

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
		Position: d.Position, FiledAt: r.SettledAt,
		Subject: d.msg.Subject, Headers: boundedHeaders(d.msg.Header),
		Body: d.Intent.Body,
	}
	if d.Order != nil {
		l.BodyHash = d.Order.BodyHash()
	}
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

// refusal returns the letter of an intent that must not be submitted. r is the record that forbids it: the
// order exists with another body, or may.
func (lg *Ledger) refusal(d *Delivery, r *order.Record) *Letter {
	l := newLetter(d, r, nil)
	l.FiledAt = lg.time.Now().UTC()
	if d.Invalid != nil {
		l.Error = d.Invalid.Error()
	}
	if l.Conflict = r.Outcome() == order.OutcomeAccepted; l.Conflict {
		l.Outcome, l.Reason = order.OutcomeRejected, reasonConflict
	} else {
		l.Reason = reasonWithheld
	}
	return l
}

// refusedRecord returns what became of a refused intent as a record of its own.
// stood is the record that the intent conflicts with.
func (l *Letter) refusedRecord(stood *order.Record) *order.Record {
	rec := &order.Record{OrderNo: l.OrderNo, Reason: l.Reason, Error: l.Error, Position: l.Position, SettledAt: l.FiledAt,
		Batch: l.Batch, Source: l.Source, Worker: stood.Worker, IntentID: l.IntentID, BodyHash: l.BodyHash, Settled: stood.Settled}
	rec.SetOutcome(l.Outcome)
	return rec
}
