package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// PublishStatus says what became of one intent that was published.
type PublishStatus uint8

// The statuses of a published intent. PublishNone is the zero value.
const (
	PublishNone PublishStatus = iota
	// Stored: the intent is in the stream. Orderpost is responsible for it from
	// now on.
	Stored
	// AlreadyPending: another intent for this order_no is waiting or being
	// handled. This one was not stored.
	AlreadyPending
	// AlreadyKnown: an intent with this ID was stored within the broker's
	// duplicate window, and is waiting or settled. This one was not stored
	// again.
	AlreadyKnown
)

var publishNames = [...]string{"", "stored", "already-pending", "already-known"}

// String returns the word used in summaries.
func (p PublishStatus) String() string { return publishNames[p] }

// ErrFull is returned when a stream takes no more because of its
// limits or the disk. Nothing was stored. Try again later.
var ErrFull = errors.New("no room left")

// ErrSwallowed is returned if the broker takes an intent for a duplicate of one
// that is neither waiting nor settled by its order_no's result: somebody
// removed it, another submission was settled since, or the ID was used for
// another order. Nothing was stored. Look at the result, and publish under
// another ID if the order is still wanted.
var ErrSwallowed = errors.New("the broker took the intent for a duplicate of one that is gone")

// Producer stores intents, and finds out what the broker's answers mean (R6).
type Producer struct{ ledger *Ledger }

// Publish stores one intent and returns once JetStream has confirmed it.
func (pr *Producer) Publish(ctx context.Context, in Intent) (PublishStatus, error) {
	if err := pr.CheckSize(in); err != nil {
		return PublishNone, err
	}
	for try := 0; ; try++ {
		p, seq, err := pr.ledger.store.PublishIntent(ctx, pr.IntentMessage(in))
		if err != nil || p == Stored {
			return p, err
		}
		if p, err = pr.Verify(ctx, in, p, seq); p != PublishNone || err != nil {
			return p, err
		}
		if try == FreedTries {
			return AlreadyPending, nil
		}
		if err := pr.ledger.time.Sleep(ctx, FreedPause); err != nil {
			return PublishNone, err
		}
	}
}

// FreedTries and FreedPause bound how long a publish is repeated because a settled intent has
// the place of the order_no. The broker refuses it as "already pending" until that intent was
// trimmed (R14).
const (
	FreedTries = 40
	FreedPause = 50 * time.Millisecond
)

// Verify checks an answer that says "not stored" (R6). original is the sequence
// of the message that the broker names as the duplicate. PublishNone without an
// error means that no pending intent explains the answer: publish again.
func (pr *Producer) Verify(ctx context.Context, in Intent, p PublishStatus, original uint64) (PublishStatus, error) {
	switch {
	case p == AlreadyKnown && in.Waits():
		return p, pr.findWaiting(ctx, in, original)
	case p == AlreadyPending && !in.Waits():
		pending, err := pr.ledger.IsPending(ctx, in.OrderNo)
		if err != nil || !pending {
			return PublishNone, err
		}
	case p == AlreadyKnown:
		return p, pr.findOriginal(ctx, in, original)
	}
	return p, nil
}

// findOriginal returns ErrSwallowed if the intent at seq, of which in is a
// duplicate, is neither waiting nor settled.
func (pr *Producer) findOriginal(ctx context.Context, in Intent, seq uint64) error {
	waiting, err := pr.ledger.store.IntentAt(ctx, seq)
	if err != nil {
		return err
	}
	if waiting != nil {
		if waiting.Subject != pr.ledger.cfg.IntentSubjects+order.Token(in.OrderNo) { // the ID was used for another order
			return fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
		}
		return nil
	}
	entry, err := pr.ledger.Lookup(ctx, in.OrderNo)
	if errors.Is(err, ErrUnreadable) {
		return nil // a record exists
	}
	// The result of another submission proves nothing: it may be older than in.
	if err == nil && (entry.Record == nil || entry.Record.Settled == 0 || entry.Record.IntentID != IntentID(in.ID, seq, time.Time{})) {
		err = fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
	}
	return err
}
