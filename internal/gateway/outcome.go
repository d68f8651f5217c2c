package gateway

import (
	"time"

	"orderpost/internal/door"
)

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
	Attempts   int       `json:"attempts"`
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	SettledAt  time.Time `json:"settled_at,omitzero"`
	Batch      string    `json:"batch,omitempty"`
	Source     string    `json:"source,omitempty"`
	// Position is the place in the feed; 0 = none yet.
	Position uint64 `json:"position,omitempty"`
}

// outcomeOf returns an outcome as the client sees it: without the batch and the source of another
// one that brought the order first.
func (by *client) outcomeOf(o door.Outcome) *outcome {
	if !by.may(ReadAll) && o.Source != by.name && !by.owns(o.Source) {
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
	}
	return out
}
