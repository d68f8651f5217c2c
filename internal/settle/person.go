package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// ErrPending is returned if a person must wait: an intent for the order_no is
// stored and may get an outcome at any moment.
var ErrPending = errors.New("an intent for this order_no is in the queue; wait until it is settled")

// ErrNoResult is returned if there is nothing to resolve: the order_no has no
// result, or its result has expired.
var ErrNoResult = errors.New("this order_no has no result")

// ErrNotInDoubt is returned for an order whose outcome is known.
var ErrNotInDoubt = errors.New("the order's outcome is not in doubt")

// Operator carries out what persons say about orders and their letters (R5).
type Operator struct {
	ledger   *Ledger
	producer *Producer
}

// Person says who decided, and why.
type Person struct {
	Name, Note string
	// Knew is the newest result when she decided; zero = she decides now. What
	// she says does not cover an order whose record is newer.
	Knew StreamSeq
}

// knew reports whether the person can have known a record when she decided, if it is of the same results
// (StillResults).
func (p Person) knew(e Entry) bool {
	return p.Knew.Birth == 0 || e.Record == nil || e.Seq <= p.Knew.Seq
}

// ErrRemade is returned if a person decided on results that are no more.
var ErrRemade = errors.New("the results were made again since; look at the order again")

// StillResults returns ErrRemade if the stream of results was made again since the person decided. What was read
// before the call is of the stream that she knew, otherwise.
func (lg *Ledger) StillResults(ctx context.Context, p Person) error {
	if p.Knew.Birth == 0 {
		return nil
	}
	birth, err := lg.store.ResultsBirth(ctx)
	if err == nil && birth != p.Knew.Birth {
		err = ErrRemade
	}
	return err
}

// did returns what the person did as an entry of a record.
func (p Person) did(what string, now time.Time) order.Intervention {
	return order.Intervention{At: now.UTC(), By: p.Name, Did: what, Note: p.Note}
}

// What records say that a person did. Intervention.Did holds one of these texts.
const (
	didDrop    = "dropped dead letter "
	didResolve = "resolved as "
	didErase   = "erased answers, notes and dead letters"
)

// LetterDropped returns the sequence of the letter that was dropped by what a person
// did; 0 = it was something else.
func LetterDropped(did string) uint64 { return sequenceAfter(didDrop, did) }

// WasResolved reports whether a person settled an order by what they did.
func WasResolved(did string) bool { return strings.HasPrefix(did, didResolve) }

// sequenceAfter reads the sequence that follows a prefix, up to an @; 0 = there is none.
func sequenceAfter(prefix, text string) uint64 {
	rest, found := strings.CutPrefix(text, prefix)
	if !found {
		return 0
	}
	rest, _, _ = strings.Cut(rest, "@")
	seq, _ := strconv.ParseUint(rest, 10, 64) // 0 if it is no number
	return seq
}

// requireNonePending returns ErrPending if an intent for the order_no is stored that
// has no outcome yet.
func (op *Operator) requireNonePending(ctx context.Context, orderNo string) error {
	pending, err := op.ledger.IsPending(ctx, orderNo)
	if err == nil && pending {
		err = fmt.Errorf("order %s: %w", orderNo, ErrPending)
	}
	return err
}

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
	return op.resolve(ctx, token, orderNo, seen, as, p)
}

// ErrReplaced is returned if the outcome is not the one that the person looked
// into: the order was handled again since. Her word does not cover that.
var ErrReplaced = errors.New("the order was handled again since; look it up at the API again")

// ResolveLetter is Resolve for the order of a listed letter. It writes nothing if
// no record names the letter any more, and reports that as gone.
func (op *Operator) ResolveLetter(ctx context.Context, listed *Letter, as order.Outcome, p Person) (gone bool, err error) {
	l, _, err := op.ledger.rereadListed(ctx, listed)
	switch {
	case err != nil || l == nil:
		return l == nil, err
	case l.Conflict:
		return false, fmt.Errorf("order %s exists with another body: %w", l.OrderNo, ErrNotInDoubt)
	}
	_, err = op.resolve(ctx, l.Token(), l.OrderNo, listed.seen, as, p)
	if errors.Is(err, ErrReplaced) {
		return true, nil
	}
	return false, err
}

// resolve writes the person's word about the record with the write id seen; empty = the one that is read
// first. After a lost confirmation the order may have been posted again, because that word was
// stored and the outcome replaced since.
func (op *Operator) resolve(ctx context.Context, token, orderNo, seen string, as order.Outcome, p Person) (*order.Record, error) {
	if as != order.OutcomeAccepted && as != order.OutcomeRejected {
		return nil, fmt.Errorf("order %s: a person can settle it as accepted or rejected, not as %s", orderNo, as)
	}
	entry, err := op.ledger.updateRecord(ctx, token, func(stored Entry) (*order.Record, error) {
		cur := stored.Record
		if err := op.requireNonePending(ctx, orderNo); err != nil {
			return nil, err
		}
		next, err := resolved(cur, orderNo, as, p, op.ledger.time.Now())
		if next == nil && err == nil {
			return nil, nil // it says so, perhaps by a write of hers whose confirmation was lost
		}
		if err := op.ledger.StillResults(ctx, p); err != nil {
			return nil, fmt.Errorf("order %s: %w", orderNo, err)
		}
		if cur != nil {
			seen = cmp.Or(seen, cur.WriteID)
		}
		if next != nil && (seen != cur.WriteID || !p.knew(stored)) {
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

// Drop removes a dead letter. The result stays and says who dropped the
// letter. gone reports that no record named the letter any more.
//
// Drop changes nothing and returns ErrPending while an intent for the order_no
// is stored that has no outcome yet.
func (op *Operator) Drop(ctx context.Context, listed *Letter, p Person) (gone bool, err error) {
	did := didDrop + strconv.FormatUint(listed.Seq, 10)
	_, err = op.ledger.updateRecord(ctx, listed.Token(), func(now Entry) (*order.Record, error) {
		if gone = now.Record == nil || !now.Record.Names(listed.Seq); gone {
			return nil, nil
		}
		if err := op.requireNonePending(ctx, listed.OrderNo); err != nil {
			return nil, err
		}
		next := now.Record.WithoutLetter(listed.Seq)
		next.Intervene(p.did(did, op.ledger.time.Now()))
		return next, nil
	})
	return gone, err
}

// WasErased reports whether a person erased an order by what they did.
func WasErased(did string) bool { return did == didErase }

// Erase removes what the API answered about an order, what persons noted, and its dead letters, from what can be
// read. The outcome stays, with who erased the rest. Erase changes nothing if it returns ErrPending (an intent
// is stored that has no outcome yet) or ErrNoResult.
func (op *Operator) Erase(ctx context.Context, orderNo string, p Person) error {
	token, err := op.ledger.TokenOf(ctx, orderNo)
	if err != nil {
		return err
	}
	p.Note = "" // it may say what is erased
	_, err = op.ledger.updateRecord(ctx, token, func(now Entry) (*order.Record, error) {
		if now.Record == nil {
			return nil, fmt.Errorf("order %s: %w", orderNo, ErrNoResult)
		}
		if err := op.requireNonePending(ctx, orderNo); err != nil {
			return nil, err
		}
		next := now.Record.Erased()
		next.Intervene(p.did(didErase, op.ledger.time.Now()))
		return next, nil
	})
	return err
}
