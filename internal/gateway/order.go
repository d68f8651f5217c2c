package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"orderpost/internal/gateway/door"
	"orderpost/internal/order"
)

// maxWait bounds the parameter wait.
const maxWait = 10 * time.Minute

// order answers what became of one submission, and waits for it if the client asks.
func (c *call) order() error {
	wait, p := c.wait()
	if p != nil {
		return p
	}
	o, err := c.find()
	if err != nil {
		return err
	}
	if o.Pending && wait > 0 {
		if o, err = c.await(o, wait); err != nil {
			return err
		}
	}
	c.answer(http.StatusOK, c.client.outcomeOf(o))
	return nil
}

// await waits for the outcome of a pending submission.
func (c *call) await(o door.Outcome, wait time.Duration) (door.Outcome, error) {
	ctx, cancel := c.until(wait)
	defer cancel()
	settled, err := c.s.door.Wait(ctx, o.OrderNo, o.ID)
	if p := c.recheck(); p != nil {
		return o, p
	}
	switch {
	case err == nil:
		return settled, nil
	case ctx.Err() == nil:
		return o, lookupProblem(err)
	}
	return o, nil
}

// cancel withdraws one submission.
func (c *call) cancel() error {
	o, err := c.find()
	if err != nil {
		return err
	}
	if o.Pending {
		ctx, cancel := c.until(c.s.storeTimeout)
		defer cancel()
		o, err = c.s.door.Cancel(ctx, o.OrderNo, o.ID, "client "+c.client.name)
		if p := c.recheck(); p != nil {
			return p
		}
		switch {
		case err != nil && o.Pending && ctx.Err() != nil:
			// The mark may stand. The client asks again, or waits for the outcome.
		case err != nil:
			return lookupProblem(err)
		}
	}
	switch {
	case o.Pending:
		c.answer(http.StatusAccepted, c.client.outcomeOf(o))
	case o.Outcome == order.OutcomeCancelled:
		c.answer(http.StatusOK, c.client.outcomeOf(o))
	default:
		p := problemOf(settledOther, "order_no", fmt.Sprintf("it ended as %s (created: %s)", o.Outcome, o.Created), "")
		p.Outcome = c.client.outcomeOf(o)
		return p.of(o.OrderNo, o.ID)
	}
	return nil
}

// find looks up the submission that a request names. A submission that the client may not see is
// answered like an unknown one, and only after the same look-up.
func (c *call) find() (door.Outcome, error) {
	orderNo := c.query.Get("order_no")
	if orderNo == "" {
		return door.Outcome{}, problemOf(badRequest, "parameter order_no", "it is missing", "name the order: /v1/orders?order_no=A-1001")
	}
	ctx, cancel := context.WithTimeout(c.Context(), c.s.lookTimeout)
	defer cancel()
	p := noSuchOrder()
	for _, id := range c.submissions() {
		o, err := c.s.door.Outcome(ctx, orderNo, id)
		switch {
		case errors.Is(err, door.ErrUnknownOrder):
			c.hint(p, o.Record)
		case err != nil:
			return o, lookupProblem(err)
		case c.client.sees(o):
			return o, nil
		case id == "" && c.unsearched(ctx): // the client's own may wait, whatever else there is
			return o, problemOf(notSearched, "order_no", "so many orders wait that nobody looks for one of them by its order_no alone", "give submission, the id of the receipt or your own key, or ask again later").retry(retryFull)
		}
	}
	return door.Outcome{}, p
}

// unsearched reports whether too many orders wait to look for one. It asks for a submission that cannot
// exist, since no key is empty: only then is it said to be pending.
func (c *call) unsearched(ctx context.Context) bool {
	o, err := c.s.door.Outcome(ctx, c.query.Get("order_no"), c.client.name+":")
	return err == nil && o.Pending
}

// hint adds what the client may know of the order_no: a submission whose order was
// accepted before with the same body has no outcome of its own.
func (c *call) hint(p *problem, last *order.Record) {
	if last != nil && c.client.sees(door.Outcome{Source: last.Source, ID: last.IntentID}) {
		*p = *problemOf(unknownOrder, "parameter submission", fmt.Sprintf("nothing is known about this submission; the last word on the order_no is about another one, and is %q", last.Word),
			"ask without submission: an order that was accepted before is not sent again")
	}
}

// submissions returns the ids that the parameter submission may mean: the one of a
// receipt, or the client's own Idempotency-Key. Without the parameter it is the last
// submission of the order_no.
func (c *call) submissions() []string {
	given := c.query.Get("submission")
	if given == "" {
		return []string{""}
	}
	ids := []string{submissionID(c.client.name, given, nil), given}
	if c.client.owns(given) { // a receipt's, most likely
		slices.Reverse(ids)
	}
	return ids
}

// wait reads the parameter wait; 0 = there is none.
func (c *call) wait() (time.Duration, *problem) {
	text := c.query.Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, problemOf(badRequest, "parameter wait", fmt.Sprintf("%.40q", text), "give a duration such as 30s, at most "+maxWait.String())
	}
	return wait, nil
}

// receipt is the answer to an order that is stored.
type receipt struct {
	Line       int    `json:"line,omitempty"`
	Status     int    `json:"status"`
	OrderNo    string `json:"order_no"`
	Submission string `json:"submission"`
	// Result is "stored", or "same": this submission was stored before.
	Result string `json:"result"`
}

// outcome is what became of one submission.
type outcome struct {
	OrderNo    string `json:"order_no"`
	Submission string `json:"submission"`
	// State is "pending" or "settled".
	State string `json:"state"`
	// Outcome is one of the eight words; "" while State is pending.
	Outcome string `json:"outcome,omitempty"`
	// Created says whether the order exists at the API by this submission: yes, no or
	// unknown.
	Created string `json:"created"`
	Reason  string `json:"reason,omitempty"`
	// Attempts are those at the order_no; EnqueuedAt and SettledAt are the submission's.
	Attempts int `json:"attempts"`
	// Status and Response are the API's last answer, at most 4096 bytes of it; only for whoever brought the order.
	Status   int    `json:"status,omitempty"`
	Response string `json:"response,omitempty"`
	// API are the members of the answer that the rules keep.
	API        map[string]string `json:"api,omitempty"`
	EnqueuedAt time.Time         `json:"enqueued_at,omitzero"`
	SettledAt  time.Time         `json:"settled_at,omitzero"`
	Batch      string            `json:"batch,omitempty"`
	Source     string            `json:"source,omitempty"`
	// Position is the place in the feed; 0 = none yet.
	Position uint64 `json:"position,omitempty"`
}

// outcomeOf returns an outcome as the client sees it: without the batch, the source and the answer of another
// one that brought the order first.
func (by *client) outcomeOf(o door.Outcome) *outcome {
	others := !by.may(ReadAll) && o.Source != by.name && !by.owns(o.Source)
	if others {
		o.Batch, o.Source = "", ""
	}
	out := &outcome{OrderNo: o.OrderNo, Submission: o.ID, State: "settled", Outcome: o.Outcome.String(), Created: o.Created, Reason: o.Reason,
		Batch: o.Batch, Source: o.Source, Position: o.Position}
	if o.Pending {
		out.State, out.Outcome = "pending", ""
	}
	r := o.Record
	switch c := r.ConflictOf(o.ID); {
	case r == nil:
	case c != nil:
		out.SettledAt, out.EnqueuedAt = c.RefusedAt, c.EnqueuedAt
	case r.IntentID == o.ID:
		out.Attempts, out.SettledAt, out.EnqueuedAt = r.Attempts, r.SettledAt, r.EnqueuedAt
		if !others {
			out.Status, out.Response, out.API = r.Status, r.Response, r.API
		}
	}
	return out
}
