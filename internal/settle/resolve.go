package settle

import (
	"context"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// Resolve records what a person found out about an order whose outcome is
// unknown: it exists at the API (accepted), or it does not (rejected). The
// record says who decided and when. Resolve also removes the dead letter. It
// corrects a person's earlier word, but not an acceptance that the API
// confirmed. Repeated after a crash, it completes what is missing.
//
// Resolve writes nothing if it returns ErrPending (an intent is stored),
// ErrNoResult or ErrNotInDoubt.
func (q *Protocol) Resolve(ctx context.Context, orderNo string, as order.Outcome, p Person) (*order.Record, error) {
	if as != order.OutcomeAccepted && as != order.OutcomeRejected {
		return nil, fmt.Errorf("order %s: a person can settle it as accepted or rejected, not as %s", orderNo, as)
	}
	token, err := q.TokenOf(ctx, orderNo)
	if err != nil {
		return nil, err
	}
	entry, err := q.updateRecord(ctx, token, func(cur *order.Record) (*order.Record, error) {
		if err := q.requireNonePending(ctx, orderNo); err != nil {
			return nil, err
		}
		return resolved(cur, orderNo, as, p, q.time.Now())
	})
	if err != nil {
		return entry.Record, err
	}
	letter, err := q.rereadLetter(ctx, token)
	// If a later intent has failed since, the letter is about that intent and stays.
	if err == nil && letter != nil && !letter.Conflict && letter.IntentID == entry.Record.IntentID {
		err = q.store.DeleteLetter(ctx, token, letter)
	}
	return entry.Record, err
}

// resolved returns cur with the person's word, or nil if cur has it already.
func resolved(cur *order.Record, orderNo string, as order.Outcome, p Person, now time.Time) (*order.Record, error) {
	switch {
	case cur == nil:
		return nil, fmt.Errorf("order %s: %w", orderNo, ErrNoResult)
	case cur.By != "" && cur.Outcome() == as:
		return nil, nil
	case cur.Outcome() != order.OutcomeUnknown && cur.By == "":
		return nil, fmt.Errorf("order %s is %s: %w", orderNo, cur.Word, ErrNotInDoubt)
	}
	next := *cur
	next.SetOutcome(as)
	next.Unsure, next.Allowed, next.AllowedFor, next.Dropped = false, false, "", false
	next.By, next.SettledAt = p.Name, now.UTC()
	next.Reason = "settled by a person"
	next.Intervene(p.did("resolved as "+as.String(), now))
	return &next, nil
}
