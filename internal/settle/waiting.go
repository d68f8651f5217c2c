package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
)

// Waits reports whether the intent goes to the waiting room.
func (in Intent) Waits() bool { return in.Lane != "" || !in.NotBefore.IsZero() }

// NoImport is the token of intents that belong to no import.
const NoImport = "-"

// ImportToken returns the token under which the intents of an import wait.
func ImportToken(batch string) string {
	if batch == "" {
		return NoImport
	}
	return order.Token(batch)
}

// subjectOf returns the subject that an intent is published to.
func (pr *Producer) subjectOf(in Intent) string {
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

// WaitingMinute returns the tokens of the minute of at.
func WaitingMinute(at time.Time) string { return at.UTC().Format("20060102.1504") }

// waitingSecond returns the tokens of the first full second from at on.
func waitingSecond(at time.Time) string {
	return at.Add(time.Second - 1).UTC().Truncate(time.Second).Format("20060102.1504.05")
}

// WaitingTime reads the time from the tokens of a subject in the waiting room, joined
// by dots. ok is false for a time that does not exist or is more than a year ahead.
func WaitingTime(tokens string, now time.Time) (at time.Time, ok bool) {
	at, err := time.Parse("20060102.1504.05", tokens)
	return at, err == nil && at.Sub(now) <= order.MaxWait
}

// SplitWaiting reads a subject of the waiting room, without its prefix: lane, token of
// the import, and the tokens of its time for WaitingTime; "" = it names none. The stream
// takes subjects of two tokens and of six.
func SplitWaiting(subject string) (lane, batch, second string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 6 {
		return tokens[0], tokens[len(tokens)-1], ""
	}
	return tokens[4], tokens[5], strings.Join(tokens[1:4], ".")
}

// oddTime returns the time in a waiting subject that WaitingTime cannot read; "" = none.
func (mv *Mover) oddTime(m *Message, now time.Time) string {
	_, _, text := SplitWaiting(strings.TrimPrefix(m.Subject, mv.ledger.cfg.WaitingSubjects))
	if _, ok := WaitingTime(text, now); ok {
		return ""
	}
	return text
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
		if WaitingOrderNo(waiting) != in.OrderNo { // the ID was used for another order
			return swallowed
		}
		return nil
	}
	pending, err := pr.ledger.store.Intent(ctx, in.OrderNo)
	if err != nil || pending != nil && pending.Header.Get(HeaderIntentID) == in.ID {
		return err
	}
	entry, err := pr.ledger.Lookup(ctx, in.OrderNo)
	if errors.Is(err, ErrUnreadable) {
		return nil // a record exists
	}
	if err == nil && !entry.Record.Knows(in.ID) {
		err = swallowed
	}
	return err
}
