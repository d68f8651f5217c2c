package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// ErrSwallowed is returned if the broker takes an intent for a duplicate of one
// that is neither waiting nor settled by its order_no's result: somebody
// removed it, another submission was settled since, or the ID was used for
// another order. Nothing was stored. Look at the result, and publish under
// another ID if the order is still wanted.
var ErrSwallowed = errors.New("the broker took the intent for a duplicate of one that is gone")

// Producer stores intents, and finds out what the broker's answers mean (R6).
type Producer struct{ ledger *Ledger }

// IntentMessage returns the message that publishes an intent.
func (pr *Producer) IntentMessage(in Intent) *Message {
	msg := &Message{Subject: pr.SubjectOf(in), Header: make(Header), Data: in.Body}
	set := func(name, value string) {
		if value != "" {
			msg.Header[name] = []string{value}
		}
	}
	set(HeaderIntentID, in.ID)
	set(HeaderBatch, in.Batch)
	set(HeaderSource, in.Source)
	set(HeaderTraceparent, in.Traceparent)
	if !in.Deadline.IsZero() {
		set(HeaderDeadline, in.Deadline.UTC().Format(time.RFC3339Nano))
	}
	if !in.NotBefore.IsZero() {
		set(HeaderNotBefore, in.NotBefore.UTC().Format(time.RFC3339Nano))
	}
	if !in.LookupUntil.IsZero() {
		set(HeaderLookupUntil, in.LookupUntil.UTC().Format(time.RFC3339Nano))
	}
	return msg
}

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
		if waiting.Subject != pr.ledger.cfg.IntentSubjects+order.Token(in.OrderNo) || bodyHashOf(waiting.Data) != bodyHashOf(in.Body) { // the ID was used for another order
			return fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
		}
		return nil
	}
	entry, err := pr.ledger.Lookup(ctx, in.OrderNo)
	if errors.Is(err, ErrUnreadable) {
		return nil // a record exists
	}
	// The result of another submission proves nothing: it may be older than in.
	if err == nil && (entry.Record == nil || entry.Record.Settled == 0 || entry.Record.IntentID != IntentID(in.ID, seq, time.Time{}) || entry.Record.OtherBody(in.ID, bodyHashOf(in.Body))) {
		err = fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
	}
	return err
}

// SubjectOf returns the subject that an intent is published to.
func (pr *Producer) SubjectOf(in Intent) string {
	if !in.Waits() {
		return pr.ledger.cfg.IntentSubjects + order.Token(in.OrderNo)
	}
	lane, batch := in.Lane, ImportToken(in.Batch)
	if lane == "" {
		lane = order.BulkLane
	}
	if in.NotBefore.IsZero() {
		return pr.ledger.cfg.WaitingSubjects + lane + "." + batch
	}
	return pr.ledger.cfg.WaitingSubjects + "at." + waitingSecond(in.NotBefore) + "." + lane + "." + batch
}

// findWaiting returns ErrSwallowed if the broker took an intent for a duplicate of
// one that neither waits, nor is pending, nor was moved and settled.
func (pr *Producer) findWaiting(ctx context.Context, in Intent, seq uint64) error {
	swallowed := fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
	waiting, err := pr.ledger.store.WaitingAt(ctx, seq)
	if err != nil {
		return err
	}
	if waiting != nil {
		if WaitingOrderNo(waiting) != in.OrderNo || bodyHashOf(waiting.Data) != bodyHashOf(in.Body) { // the ID was used for another order
			return swallowed
		}
		return nil
	}
	pending, err := pr.ledger.store.Intent(ctx, in.OrderNo)
	if err != nil || pending != nil && pending.Header.Get(HeaderIntentID) == in.ID && bodyHashOf(pending.Data) == bodyHashOf(in.Body) {
		return err
	}
	entry, err := pr.ledger.Lookup(ctx, in.OrderNo)
	if errors.Is(err, ErrUnreadable) {
		return nil // a record exists
	}
	if err == nil && !entry.Record.Knows(in.ID, bodyHashOf(in.Body)) {
		err = swallowed
	}
	return err
}

// ErrTooLarge is returned for an intent that the broker would refuse, or whose
// dead letter it could not store.
var ErrTooLarge = errors.New("intent is larger than the broker takes")

// HeadersReserve is the size that an intent's headers may have besides a body
// of order.MaxBody, in bytes.
const HeadersReserve = 64 << 10

// MaxIntentSize is the largest message that the intents stream takes, headers
// included. The broker refuses a larger one from a producer that bypasses
// CheckSize.
const MaxIntentSize = order.MaxBody + HeadersReserve

// CheckSize returns ErrTooLarge for an intent that is larger than any order may
// be, or whose dead letter the broker could not store.
func (pr *Producer) CheckSize(in Intent) error {
	size, limit := int64(len(in.Body)), pr.ledger.store.MaxPayload()-LetterReserve
	switch {
	case size > order.MaxBody:
		return fmt.Errorf("%w: order %q has %d bytes, the limit is %d", ErrTooLarge, in.OrderNo, size, order.MaxBody)
	case size > limit:
		return fmt.Errorf("%w: order %q has %d bytes, the limit here is %d (the broker's max_payload less %d for the dead letter's header)",
			ErrTooLarge, in.OrderNo, size, limit, LetterReserve)
	}
	return nil
}
