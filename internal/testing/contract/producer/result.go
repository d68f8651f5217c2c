package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Result is the last word on an order_no. It has more fields than these; see
// docs/schema/result.json. Ignore those that you do not know.
type Result struct {
	OrderNo string `json:"order_no"`
	// Outcome is "retrying" while the order is being worked on. That is a note,
	// not an outcome.
	Outcome  string `json:"outcome"`
	IntentID string `json:"intent_id"`
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason,omitempty"`
	Error    string `json:"error,omitempty"`
	// Conflicts are submissions that were refused, since the order_no belongs to a
	// submission with another body. IntentID may name one of them.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Conflict is a submission that was refused.
type Conflict struct {
	IntentID string `json:"intent_id"`
}

// Settled says whether the submission named by IntentID has come to its end.
func (r *Result) Settled() bool { return r.Outcome != "retrying" }

// Of gives the result of one submission; nil where the last word is about other
// submissions alone.
func (r *Result) Of(id string) *Result {
	for _, c := range r.Conflicts {
		if c.IntentID == id && r.Outcome == "accepted" {
			return &Result{OrderNo: r.OrderNo, Outcome: "rejected", IntentID: id,
				Reason: "conflict: the order_no was accepted with another body"}
		}
		if c.IntentID == id {
			return r // nobody knows yet which of the two exists
		}
	}
	if r.IntentID != id {
		return nil
	}
	return r
}

// Created says whether the order exists at the API: "yes", "no" or "nobody
// knows". A word that this program does not know proves nothing.
func (r *Result) Created() string {
	switch r.Outcome {
	case "accepted":
		return "yes"
	case "rejected", "exhausted", "expired", "invalid", "poison", "cancelled":
		return "no"
	default: // unknown, retrying
		return "nobody knows"
	}
}

// ReadResult reads the last word on an order_no; nil where there is none.
func ReadResult(ctx context.Context, nc *nats.Conn, token string) (*Result, error) {
	msg, err := getMessage(ctx, nc, "ORDERS_RESULTS", map[string]any{"last_by_subj": "orders.results." + token})
	if err != nil || msg == nil {
		return nil, err
	}
	data, err := msg.body()
	if err != nil {
		return nil, err
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("result of %s: %w", token, err)
	}
	return &r, nil
}

// Await waits for the outcome of one submission. An outcome with another
// intent_id belongs to another submission of the same order_no, unless it names
// ours among its conflicts.
//
// It asks once in a while, which needs the fewest permissions. Whoever waits
// for many orders reads the results stream with a consumer instead.
func Await(ctx context.Context, nc *nats.Conn, token, id string) (*Result, error) {
	for {
		r, err := ReadResult(ctx, nc, token)
		if err == nil && r != nil {
			if mine := r.Of(id); mine != nil && mine.Settled() {
				return mine, nil
			}
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(pause):
		}
	}
}
