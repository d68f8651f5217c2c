package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// Outcome is what became of one submission, and of no other.
type Outcome struct {
	OrderNo, ID string
	// Outcome is OutcomeNone while the submission is pending.
	Outcome order.Outcome
	// Pending: it has no outcome yet.
	Pending bool
	// Created says whether the order exists at the API by this submission: "yes", "no"
	// or "unknown".
	Created string
	// Reason is a short, stable phrase for grouping.
	Reason string
	// Batch and Source are those of the submission.
	Batch, Source string
	// Record is the last word on the order_no, or nil. It may be about another submission.
	Record *order.Record
	// Position is the record's place in the results: Outcomes goes on after it.
	Position uint64
}

// conflictReason is the reason of a submission whose order_no was accepted with another
// body.
const conflictReason = "conflict: the order_no was accepted with another body"

// outcomeIn returns what a record says about a submission, by docs/producers.md ("Is it about my
// submission?"). "" means the last word on the order_no. ok is false if the record says
// nothing about it.
func outcomeIn(e settle.Entry, id string) (o Outcome, ok bool) {
	r := e.Record
	if r == nil {
		return o, false
	}
	o = Outcome{OrderNo: r.OrderNo, ID: id, Outcome: r.Outcome(), Reason: r.Reason, Batch: r.Batch, Source: r.Source, Record: r, Position: e.Seq}
	listed := r.Listed(id)
	switch {
	case id == "":
		o.ID = r.IntentID
	case listed != nil:
		if o.Batch, o.Source = listed.Batch, listed.Source; o.Outcome == order.OutcomeAccepted {
			o.Outcome, o.Reason = order.OutcomeRejected, conflictReason
		}
	case r.IntentID != id:
		return Outcome{}, false
	}
	o.Pending, o.Created = o.Outcome == order.OutcomeNone, o.Outcome.Created()
	return o, true
}

// outcomesIn returns what a record says, for a reader of all records: first about the
// submissions that it lists as conflicts, last about its own. Only the last has the
// record's position, so that a reader who stops in between gets all of them again.
func outcomesIn(e settle.Entry) (out []Outcome) {
	for _, c := range e.Record.Conflicts {
		if c.IntentID == e.Record.IntentID {
			continue
		}
		if o, _ := outcomeIn(e, c.IntentID); !o.Pending {
			o.Position--
			out = append(out, o)
		}
	}
	if o, _ := outcomeIn(e, e.Record.IntentID); !o.Pending {
		out = append(out, o)
	}
	return out
}

// Outcome returns what became of a submission by now. "" as the ID means the last word on
// the order_no, whosever it is.
//
// ErrUnknownOrder means that nothing is pending and no result names the submission. The
// Outcome then has the Record if the order_no has one: results expire, and a later
// submission may have replaced this one. Other errors: ErrUnavailable, ErrClosed, ctx's.
func (d *Door) Outcome(ctx context.Context, orderNo, id string) (Outcome, error) {
	o, found, err := d.find(ctx, orderNo, id)
	if err != nil || found {
		return o, err
	}
	waits, err := ask(ctx, d, &d.scans, orderNo)
	if err != nil {
		return o, err
	}
	if w := waits.find(orderNo, id); w != nil {
		return *w, nil
	}
	if o, found, err = d.find(ctx, orderNo, id); err != nil || found { // it may have been moved into the queue between the two looks
		return o, err
	}
	return o, fmt.Errorf("%w: %s", ErrUnknownOrder, unknown(o, orderNo, id))
}

// unknown says what is known instead of a submission.
func unknown(o Outcome, orderNo, id string) string {
	switch {
	case o.Record == nil:
		return fmt.Sprintf("order %q has no result and is not pending; see whether it was stored", orderNo)
	default:
		return fmt.Sprintf("order %q is known, and not by the id %q: a later submission (%q) replaced it, or it was never stored", orderNo, id, o.Record.IntentID)
	}
}

// find looks at queue and results.
func (d *Door) find(ctx context.Context, orderNo, id string) (o Outcome, found bool, err error) {
	st, err := d.look(ctx, orderNo)
	if err != nil {
		return Outcome{OrderNo: orderNo, ID: id}, false, err
	}
	if p := st.Pending; p != nil && (id == "" || p.ID == id) {
		return Outcome{OrderNo: orderNo, ID: p.ID, Pending: true, Created: "unknown", Batch: p.Batch, Source: p.Source, Record: st.Record, Position: st.Seq}, true, nil
	}
	if o, found = outcomeIn(st.Entry, id); found {
		return o, true, nil
	}
	return Outcome{OrderNo: orderNo, ID: id, Created: "unknown", Record: st.Record, Position: st.Seq}, false, nil
}

// read is one read about an order_no. Concurrent reads share requests.
type read[T any] struct {
	orderNo string
	found   T
	err     error
	done    chan struct{}
}

// ask makes a read, and returns what it found.
func ask[T any](ctx context.Context, d *Door, by *batcher[*read[T]], orderNo string) (found T, err error) {
	r := &read[T]{orderNo: orderNo, done: make(chan struct{})}
	by.add(r)
	if err := d.awaits(ctx, r.done); err != nil {
		return found, err
	}
	return r.found, d.readError(r.err)
}

// look reads pending intent and record of an order_no, exactly (R2).
func (d *Door) look(ctx context.Context, orderNo string) (status.OrderStatus, error) {
	st, err := ask(ctx, d, &d.looks, orderNo)
	return st, cmp.Or(err, st.Unreadable)
}

// awaits waits for what another goroutine does.
func (d *Door) awaits(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.ctx.Done():
		return ErrClosed
	}
}

func (d *Door) lookUp(batch []*read[status.OrderStatus]) {
	numbers := make([]string, len(batch))
	for i, r := range batch {
		numbers[i] = r.orderNo
	}
	statuses, err := status.OrderStatuses(d.ctx, d.q, numbers)
	for i, r := range batch {
		if r.err = err; err == nil {
			r.found = statuses[i]
		}
		close(r.done)
	}
}

// mostScanned bounds how many waiting orders are read to find one.
const mostScanned = 10_000

// inRoom are the submissions of one order_no in the waiting room. Subjects there name no orders, so a
// read of it reads all of them.
type inRoom struct {
	found   []Outcome
	tooMany uint64 // how many orders wait, if they are too many to read them
}

// find returns the waiting submission with an ID ("" = any), or nil. In a tooMany room
// every order may wait.
func (w *inRoom) find(orderNo, id string) *Outcome {
	if i := slices.IndexFunc(w.found, func(o Outcome) bool { return id == "" || o.ID == id }); i >= 0 {
		return &w.found[i]
	}
	if w.tooMany > 0 {
		return &Outcome{OrderNo: orderNo, ID: id, Pending: true, Created: "unknown",
			Reason: fmt.Sprintf("no result yet; it may be among the %d orders that wait, which are too many to look for one", w.tooMany)}
	}
	return nil
}

func (d *Door) scanRoom(batch []*read[inRoom]) {
	total, err := d.q.Waiting.Total(d.ctx)
	wanted := make(map[string][]*read[inRoom], len(batch))
	for _, r := range batch {
		if total > mostScanned {
			r.found.tooMany = total
		}
		wanted[r.orderNo] = append(wanted[r.orderNo], r)
	}
	if err == nil && total > 0 && total <= mostScanned {
		err = d.q.Waiting.Each(d.ctx, "", queue.ToTheEnd, func(page []*settle.Message) error {
			for _, m := range page {
				for _, r := range wanted[settle.WaitingOrderNo(m)] {
					r.found.found = append(r.found.found, waitingOutcome(r.orderNo, m))
				}
			}
			return nil
		})
	}
	for _, r := range batch {
		r.err = err
		close(r.done)
	}
}

func waitingOutcome(orderNo string, m *settle.Message) Outcome {
	return Outcome{OrderNo: orderNo, ID: m.IntentID(), Pending: true, Created: "unknown", Reason: "it waits for its turn or its time",
		Batch: m.Header.Get(settle.HeaderBatch), Source: m.Header.Get(settle.HeaderSource)}
}

// Wait returns what became of one submission once it has its outcome. When ctx ends
// first, it returns what is known by then, which is Pending, and ctx's error. "" as the ID
// means the next outcome of the order_no, whosever it is, or the one that it has.
//
// A wait costs no request while nothing happens. Errors: those of Outcome, but for
// ErrUnavailable: while the broker is out of reach, a wait goes on until ctx ends.
func (d *Door) Wait(ctx context.Context, orderNo, id string) (Outcome, error) {
	w := &waiter{token: settle.FileToken(order.Token(orderNo)), news: make(chan *entry, 1)}
	ready := d.follow.await(w)
	defer d.follow.forget(w)
	o := Outcome{OrderNo: orderNo, ID: id, Pending: true, Created: "unknown"}
	if err := d.awaits(ctx, ready); err != nil {
		return o, err
	}
	o, err := d.lookAgain(ctx, o, id)
	for err == nil && o.Pending {
		o, err = d.next(ctx, w, o, id)
	}
	return o, err
}

// next waits for a record, and returns what became of the submission by then.
func (d *Door) next(ctx context.Context, w *waiter, o Outcome, id string) (Outcome, error) {
	select {
	case <-ctx.Done():
		return o, ctx.Err()
	case <-d.ctx.Done():
		return o, ErrClosed
	case e := <-w.news:
		if e != nil {
			if now, ok := outcomeIn(e.read(), id); ok {
				return now, nil
			}
		}
	}
	// The record is about another submission. It may have replaced ours.
	return d.lookAgain(ctx, o, id)
}

// lookAgain is Outcome for a wait that has begun: an outage does not end it.
func (d *Door) lookAgain(ctx context.Context, o Outcome, id string) (Outcome, error) {
	for {
		now, err := d.Outcome(ctx, o.OrderNo, id)
		switch {
		case ctx.Err() != nil:
			return o, ctx.Err()
		case err == nil || !errors.Is(err, ErrUnavailable):
			return now, err
		}
		if err := settle.Sleep(ctx, longestLook); err != nil {
			return o, err
		}
	}
}
