package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// Resolve records what a person found out about an order whose outcome is
// unknown: it exists at the API (accepted), or it does not (rejected). The
// record says who decided and when, and names the dead letter no more. It
// corrects a person's earlier word, but not an acceptance that the API
// confirmed.
//
// Resolve writes nothing if it returns ErrPending (an intent is stored),
// ErrNoResult or ErrNotInDoubt. ErrReplaced means that the order was handled
// again since the person looked into the record with the write id seen, or, where
// that is empty, while Resolve waited for the broker. ErrRemade: see Person.Knew.
func (op *Operator) Resolve(ctx context.Context, orderNo, seen string, as order.Outcome, p Person) (*order.Record, error) {
	token, err := op.ledger.TokenOf(ctx, orderNo)
	if err != nil {
		return nil, err
	}
	return op.resolve(ctx, token, orderNo, about{writeID: seen}, as, p)
}

// ErrReplaced is returned if the outcome is not the one that the person looked
// into: the order was handled again since. Her word does not cover that.
var ErrReplaced = errors.New("the order was handled again since; look it up at the API again")

// ResolveLetter is Resolve for the order of a listed letter. It writes nothing if
// no record names the letter any more, and reports that as gone.
func (op *Operator) ResolveLetter(ctx context.Context, listed *Letter, as order.Outcome, p Person) (gone bool, err error) {
	l, now, err := op.ledger.rereadListed(ctx, listed)
	switch {
	case err != nil || l == nil:
		return l == nil, err
	case l.Conflict:
		return false, fmt.Errorf("order %s exists with another body: %w", l.OrderNo, ErrNotInDoubt)
	}
	of := about{intent: l.IntentID}
	if now.Record.Refused(l.Seq) != nil { // her word is about the intent whose body it was refused for
		of = about{writeID: listed.seen}
	}
	_, err = op.resolve(ctx, l.Token(), l.OrderNo, of, as, p)
	if errors.Is(err, ErrReplaced) {
		return true, nil
	}
	return false, err
}

// about is what a person's word is about: the record of this write, or the
// record about this intent, or with neither the one that is read first.
type about struct{ writeID, intent string }

// resolve writes the person's word. After a lost
// confirmation the order may have been posted again, because that word was
// stored and the outcome replaced since.
func (op *Operator) resolve(ctx context.Context, token, orderNo string, of about, as order.Outcome, p Person) (*order.Record, error) {
	if as != order.OutcomeAccepted && as != order.OutcomeRejected {
		return nil, fmt.Errorf("order %s: a person can settle it as accepted or rejected, not as %s", orderNo, as)
	}
	var seen *order.Record
	entry, err := op.ledger.updateRecord(ctx, token, func(stored Entry) (*order.Record, error) {
		cur := stored.Record
		if err := op.requireNonePending(ctx, orderNo); err != nil {
			return nil, err
		}
		next, err := resolved(cur, orderNo, as, p, op.ledger.time.Now())
		if next == nil && err == nil {
			return nil, nil // it says so, perhaps by a write of hers whose confirmation was lost
		}
		if of.intent != "" && cur != nil && !cur.Settles(of.intent) && !wasWithdrawn(cur) {
			return nil, fmt.Errorf("order %s: %w", orderNo, ErrReplaced)
		}
		if err := op.ledger.StillResults(ctx, p); err != nil {
			return nil, fmt.Errorf("order %s: %w", orderNo, err)
		}
		if next != nil && !p.knew(stored) {
			return nil, fmt.Errorf("order %s: %w", orderNo, ErrReplaced)
		}
		if seen == nil {
			seen = cur
		}
		if next != nil && (of.writeID != "" && of.writeID != cur.WriteID || cur.IntentID != seen.IntentID || !cur.SettledAt.Equal(seen.SettledAt)) {
			return nil, fmt.Errorf("order %s: %w", orderNo, ErrReplaced)
		}
		return next, err
	})
	return entry.Record, err
}

// resolved returns cur with the person's word, or nil if cur has it already.
func resolved(cur *order.Record, orderNo string, as order.Outcome, p Person, now time.Time) (*order.Record, error) {
	switch {
	case cur == nil:
		return nil, fmt.Errorf("order %s: %w", orderNo, ErrNoResult)
	case cur.By != "" && cur.Outcome() == as:
		return nil, nil
	case cur.Outcome() != order.OutcomeUnknown && !cur.Resolved():
		return nil, fmt.Errorf("order %s is %s: %w", orderNo, cur.Word, ErrNotInDoubt)
	}
	next := *cur
	next.SettledBy(p.Name, as, now.UTC())
	next.Intervene(p.did(didResolve+as.String(), now))
	return &next, nil
}

// wasWithdrawn reports whether the record's intent was withdrawn: the doubt is that of the one before.
func wasWithdrawn(r *order.Record) bool {
	return r.Outcome() == order.OutcomeUnknown && r.By != "" && r.Reason == withdrawnReason
}
