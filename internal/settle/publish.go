package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// Published says what became of one intent that was published.
type Published uint8

// What the broker said to an intent.
const (
	PublishedNone Published = iota
	// Stored: the intent is in the stream; orderpost answers for it from now on.
	Stored
	// AlreadyPending: an intent for this order_no is waiting or being worked
	// on; this one was not stored.
	AlreadyPending
	// AlreadyKnown: an intent with this ID was stored a moment ago (the
	// broker's duplicate window) and is waiting or settled; this one was not
	// stored again.
	AlreadyKnown
)

var publishedNames = [...]string{"", "stored", "already-pending", "already-known"}

// String gives the word used in summaries.
func (p Published) String() string { return publishedNames[p] }

// ErrFull is returned when the intents stream takes no more (its limits, or
// the disk). Nothing was stored; try again later.
var ErrFull = errors.New("the intents stream is full")

// ErrSwallowed is returned where the broker takes an intent for a duplicate
// although the one that it remembers is neither waiting nor the one that its
// order_no's result is about: somebody removed it, another submission was
// settled since, or the ID was used for another order. Nothing was stored; look
// at the result, and publish under another ID if the order is still wanted.
var ErrSwallowed = errors.New("the broker took the intent for a duplicate of one that is gone")

// Publish stores one intent and waits until JetStream confirmed it.
func (q *Protocol) Publish(ctx context.Context, in Intent) (Published, error) {
	if err := q.CheckSize(in); err != nil {
		return PublishedNone, err
	}
	for try := 0; ; try++ {
		p, seq, err := q.store.PublishIntent(ctx, q.IntentMessage(in))
		if err != nil || p == Stored {
			return p, err
		}
		if p, err = q.Verify(ctx, in, p, seq); p != PublishedNone || err != nil || try == freedTries {
			return p, err
		}
		if err := q.time.Sleep(ctx, freedPause); err != nil {
			return PublishedNone, err
		}
	}
}

// With replicas the place of an intent that was just acknowledged can be taken
// for occupied for a moment (R6): so often, and so far apart, a publish that is
// refused for an intent which is not there is repeated.
const (
	freedTries = 20
	freedPause = 50 * time.Millisecond
)

// Verify looks up what stands behind an answer that says "not stored" (R6).
// PublishedNone without an error: nothing does; publish again.
func (q *Protocol) Verify(ctx context.Context, in Intent, p Published, twin uint64) (Published, error) {
	switch {
	case p == AlreadyPending && q.store.Replicated():
		waiting, err := q.IsPending(ctx, in.OrderNo)
		if err != nil || !waiting {
			return PublishedNone, err
		}
	case p == AlreadyKnown:
		return p, q.findTwin(ctx, in, twin)
	}
	return p, nil
}

// findTwin returns ErrSwallowed where the intent of which in is a duplicate,
// stored at seq, is neither waiting nor settled.
func (q *Protocol) findTwin(ctx context.Context, in Intent, seq uint64) error {
	waiting, err := q.store.IntentAt(ctx, seq)
	if err != nil {
		return err
	}
	if waiting != nil {
		if waiting.Subject != q.cfg.IntentSubjects+order.Token(in.OrderNo) { // the ID was used for another order
			return fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
		}
		return nil
	}
	entry, err := q.Lookup(ctx, in.OrderNo)
	if errors.Is(err, ErrUnreadable) {
		return nil // there is a last word
	}
	// A result of another submission says nothing about this one: it may be older.
	if err == nil && (entry.Record == nil || entry.Record.Settled == 0 || entry.Record.IntentID != IntentID(in.ID, seq, time.Time{})) {
		err = fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
	}
	return err
}
