package settle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"orderpost/internal/order"
)

// suspectAfter is the number of unexplained earlier deliveries from which an
// intent is handled alone (R8: from the third delivery on).
const suspectAfter = 2

// Check reads the last word on each delivery's order_no and sets what the
// delivery needs (R2). It returns an error if it could not read the results.
// The caller must not act on any of the deliveries then.
func (wk *Worker) Check(ctx context.Context, ds []*Delivery) error {
	tokens := make([]string, len(ds))
	for i, d := range ds {
		tokens[i] = d.token
	}
	asked := wk.ledger.time.Now()
	words, err := wk.ledger.readLastWords(ctx, tokens)
	if err != nil {
		return err
	}
	now := wk.ledger.time.Now()
	for i, d := range ds {
		d.looked = asked
		d.Last, d.unreadable = words[i].entry(), words[i].Unreadable
		if d.unreadable != nil {
			d.Work = WorkNone
			continue
		}
		if passed, err := wk.passed(ctx, d); err != nil {
			return err
		} else if passed {
			continue
		}
		d.History, d.Unexplained = inherit(d)
		d.absentFor = wk.absences.known(d.token, d.History.AbsentAt, now)
		d.Work = wk.classify(d, now)
		d.Allowed = !d.looksUp() && d.Last.Record.Allows(d.Intent.ID) && !d.openNote(order.NoteAttempt) && !d.openNote(order.NoteSuspect)
	}
	return nil
}

// passed reports whether a delivery's copy was passed, and sets what the delivery needs then (R6). The stream
// holds one intent of an order_no, so a copy that was passed had left the stream: another worker settled it.
// Only then is the leader asked.
func (wk *Worker) passed(ctx context.Context, d *Delivery) (bool, error) {
	last := d.Last.Record
	if !last.Passed(d.Position, d.Birth) {
		return false, nil
	}
	if last.Settles(d.Intent.ID) {
		d.Work = WorkPassed
		return true, nil
	}
	stored, err := wk.stillStored(ctx, d)
	if err != nil {
		return false, err
	}
	if d.Work = WorkGone; !stored {
		return true, nil
	}
	back, err := wk.ledger.broughtBack(ctx, d.Intent.ID, d.Position, last)
	switch {
	case err != nil:
		return false, err
	case back:
		d.Work = WorkPassed
	case !last.Last(d.Birth).After(d.Position, d.Birth): // a withdrawal, and its sequence was given again
		return false, nil
	case wk.withdrawn(d, order.History{}) != nil: // a person decided
		d.Work = WorkPassed
	default:
		d.Work, d.unreadable = WorkNone, fmt.Errorf("%w: it is message %d, and the record is about message %d", errUsedAgain, d.Seq, last.Last(d.Birth).Seq)
	}
	return true, nil
}

// errUsedAgain means that the record names a later message than the intent's, although the intent
// is stored: the stream lost its end, and gives its sequences again.
var errUsedAgain = errors.New("the stream of intents gives sequences again, so nobody can tell whether this intent was settled; publish the order under a new submission if it is still wanted, and cancel this one: orderpost enqueue cancel ORDER_NO")

// stillStored asks the leader whether a delivery's intent is still in the stream. While
// it is, no later intent of the order_no can be.
func (wk *Worker) stillStored(ctx context.Context, d *Delivery) (bool, error) {
	m, err := wk.ledger.store.IntentAt(ctx, d.Seq)
	return m != nil && m.position(d.Birth).Same(d.Position), err
}

// broughtBack reports whether a stored copy, which a record does not settle, is one that the broker
// had removed: a server that was killed brought it back. The record names a later copy, and remembers the
// outcome of this intent, or that copy's time is the later one, too. If the stream ends before that copy, or
// neither holds, the stream lost its end and gives sequences again, which is no proof that this copy was settled.
func (lg *Ledger) broughtBack(ctx context.Context, intentID string, at order.Position, r *order.Record) (bool, error) {
	birth, end, err := lg.store.Stream(ctx)
	if err != nil {
		return false, err
	}
	last := r.Last(birth)
	at.Birth = birth // it is stored
	if last.Birth != birth || last.Seq > end || !r.Passed(at, birth) {
		return false, nil
	}
	return r.EndedBefore(intentID) || at.Seq < last.Seq && at.EnqueuedAt.Before(last.EnqueuedAt), nil
}

// lostDelivery is the reason of a doubt.
const lostDelivery = "a worker got the order, may have posted it, and reported nothing"

// inherit returns the history of the order_no and the number of deliveries of
// this intent that no note explains. Doubt and the last timestamp belong to the
// order_no. Counts belong to the intent (R3, R9).
func inherit(d *Delivery) (h order.History, unexplained int) {
	last := d.Last.Record
	d.Delivered = d.counted
	lost := int(d.counted) - 1
	if d.CountLost {
		lost = 1 // at least; the broker lost the count
	}
	switch {
	case last == nil:
	case last.IntentID != d.Intent.ID:
		h.Unsure, h.DoubtReason, h.Recalled, h.LastTimestamp = last.Unsure, last.DoubtReason, last.Recalled, last.LastTimestamp
	default:
		h = last.History
		lost, d.Delivered = sinceNote(d.counted, last)
	}
	own := last == nil || last.IntentID == d.Intent.ID
	if last.Open() && (d.Invalid == nil || !own) {
		h.Doubt("a worker began an attempt and never reported what became of it")
	}
	if lost > 0 && d.Invalid == nil { // no worker can have posted one that is invalid
		h.Doubt(lostDelivery) // R3
	}
	h.LastTimestamp = skipStamps(h.LastTimestamp, lost, last.Open())
	h.Lost += lost
	return h, h.Lost
}

// lostStamps is the number of timestamps that an unexplained delivery may have
// used.
const lostStamps = 20

// skipStamps returns the last timestamp that may have been signed. It matters if
// a clock was ahead by a little: until that time comes, each attempt gets the
// timestamp after the last one on record. A delivery that ended without a report
// may have used the next few.
func skipStamps(last int64, lost int, open bool) int64 {
	if open {
		lost++
	}
	if last == 0 {
		return 0
	}
	return order.SkipTimestamps(last, lost*lostStamps)
}

// sinceNote returns how many deliveries since the note ended without one, and
// the number of this delivery. If the broker's delivery count is not above the
// note's, the broker was restarted and its count was reset. At least one
// delivery is missing then. With an open attempt note that delivery may be the
// note's own, for which the note itself raises the doubt.
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

// classify returns what a delivery needs. It is the worker's policy on the
// facts that order.Admit states (R2, R6).
func (wk *Worker) classify(d *Delivery, now time.Time) Work {
	last := d.Last.Record
	admission := order.Admit(last, d.Intent.ID, d.bodyHash())
	switch admission.Standing {
	case order.SettledItself:
		return WorkSettled
	case order.OpenItself:
		if wk.overtaken(d) {
			return WorkNone
		}
		attempted := last.Note == order.NoteAttempt
		if attempted || wk.withdrawn(d, d.History) == nil { // a cancellation ends a delay
			d.wait = wk.waitLeft(d, now)
		}
		switch {
		case d.wait > 0 && attempted:
			return WorkClaimed
		case d.wait > 0:
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
	return wk.classifyUnsettled(d, now)
}

// bodyHash returns the hash of the order's body, or "" for an intent that can
// never be sent.
func (d *Delivery) bodyHash() string {
	if d.Invalid != nil {
		return ""
	}
	return d.Order.BodyHash()
}

// classifyUnsettled returns what an intent needs that no earlier outcome
// decides: the outcome of a cancellation, a delay, R8's handling alone, an outcome as invalid, or
// a submission. After a reconnect the former owner of a redelivered order may not have noticed the
// end of its claim, and its request may still be on its way (R7). Such an order waits in the queue,
// where it takes no slot from those that may be posted.
func (wk *Worker) classifyUnsettled(d *Delivery, now time.Time) Work {
	if mark := wk.withdrawn(d, d.History); mark != nil {
		d.cancelledBy = mark.By
		return WorkCancelled
	}
	if d.wait = wk.graceLeft(now); d.wait > 0 && d.Redelivered() && d.Invalid == nil {
		return WorkNotYet
	}
	switch {
	case d.Unexplained >= suspectAfter, d.History.Suspects > 0, d.openNote(order.NoteSuspect):
		return WorkSuspect
	case d.Invalid != nil:
		return WorkInvalid
	}
	if d.wait = d.Intent.NotBefore.Sub(now); d.wait > 0 {
		return WorkNotYet
	}
	return WorkSubmit
}

// openNote reports whether the last word is a note of this kind about this
// intent.
func (d *Delivery) openNote(kind order.NoteKind) bool {
	last := d.Last.Record
	return last != nil && last.IntentID == d.Intent.ID && last.Outcome() == order.OutcomeNone && last.Note == kind
}

// withdrawn returns the mark that covers a delivery's intent; nil = none does. It is for
// an intent that nothing has put in doubt: h is its history by now. What is in doubt stays
// with its worker, because only the API or a person ends doubt (R3).
func (wk *Worker) withdrawn(d *Delivery, h order.History) *Cancellation {
	m := wk.ledger.cancelled.load()
	if len(m.Marks) == 0 || h.Unsure {
		return nil
	}
	return m.find(ImportToken(d.Intent.Batch), d.OrderNo(), StreamSeq{d.Seq, d.Birth}, waitedAt(d.msg))
}

// PoisonAfter is the number of suspect notes from which an intent is poison:
// that many times a worker handled it alone and went down (R8).
const PoisonAfter = 3

// suspect handles an intent whose earlier deliveries no note explains. It
// handles the intent alone, after a confirmed suspect note. A worker that goes
// down with the intent leaves that note behind (R8).
func (j *job) suspect() {
	d := j.d
	if d.History.Suspects >= PoisonAfter {
		j.conclude(poison(d.History), false)
		return
	}
	j.worker.ledger.log.Warn().Str("order_no", d.OrderNo()).Int("unexplained", d.Unexplained).Msg("handling this order alone: its earlier deliveries ended without a report, and it may have crashed a worker")
	switch {
	case !j.write(j.worker.NoteSuspect):
	case d.Invalid != nil:
		j.invalid()
	default:
		j.submit()
	}
}

// poison returns the report of an intent that took its workers down. Each
// delivery that ended without a report may have sent a request and counts as an
// attempt.
func poison(h order.History) *order.Report {
	lost := h.Lost + h.Suspects
	h.Attempts += lost
	return &order.Report{End: order.EndPoison, Reason: "poison", History: h,
		Error: fmt.Sprintf("handled alone %d times, and its worker went down each time; %d deliveries ended without a report, and each may have sent it", h.Suspects, lost)}
}

// recoverPanic turns a panic in the handling of one order into a suspect note.
// The worker goes on. The order is delivered again and handled alone (R8).
func (j *job) recoverPanic() {
	what := recover()
	if what == nil {
		return
	}
	if !j.worker.ledger.time.Survivable(what) {
		panic(what)
	}
	j.obs.Panicked(what)
	j.worker.ledger.log.Error().Str("order_no", j.d.OrderNo()).Interface("panic", what).Bytes("stack", debug.Stack()).Msg("panic while handling an order")
	if j.d.Work != WorkSuspect { // a suspect has its note already
		j.write(j.worker.NoteSuspect)
	}
}
