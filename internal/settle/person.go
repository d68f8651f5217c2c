package settle

import (
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
