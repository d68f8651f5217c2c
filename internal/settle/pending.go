package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// Pending is a stored intent, as listings and cancellations see it.
type Pending struct {
	OrderNo  string
	Seq      uint64
	StoredAt time.Time
	// ID, Batch and Source are those of the Intent.
	ID, Batch, Source string
	// BodyHash is the hash of the canonical body; "" for a body that can never
	// be sent.
	BodyHash string
	// WaitedAt is the sequence that the intent had in the waiting room; zero = it never
	// waited.
	WaitedAt StreamSeq
}

// ReadPending reads a stored intent from its message.
func ReadPending(orderNo string, raw *Message) *Pending {
	p := &Pending{OrderNo: orderNo, Seq: raw.Seq, StoredAt: raw.Time,
		Batch: order.Truncate(raw.Header.Get(HeaderBatch), maxLabel), Source: order.Truncate(raw.Header.Get(HeaderSource), maxLabel),
		ID: raw.IntentID(), WaitedAt: waitedAt(raw)}
	p.BodyHash = bodyHashOf(raw.Data)
	return p
}

// bodyHashOf returns the hash of a body; "" = it can never be sent.
func bodyHashOf(body []byte) string {
	parsed, err := order.Parse(body)
	if err != nil {
		return ""
	}
	return parsed.BodyHash()
}

// IsPending reports whether an intent for the order_no is stored that has no outcome yet.
func (lg *Ledger) IsPending(ctx context.Context, orderNo string) (bool, error) {
	m, entry, err := lg.storedAndRecord(ctx, orderNo)
	return m != nil && !m.SettledBy(entry.Record), err
}

// filedToken returns the token that a stored intent's record and letter are filed under.
func (lg *Ledger) filedToken(m *Message) string {
	return FiledToken(m.Subject[len(lg.cfg.IntentSubjects):], m.Seq, m.Time)
}

// wordsOf reads the record of the order_no of each stored intent (R2).
func (lg *Ledger) wordsOf(ctx context.Context, intents []*Message) ([]LastWord, error) {
	tokens := make([]string, len(intents))
	for i, m := range intents {
		tokens[i] = lg.filedToken(m)
	}
	return lg.readLastWords(ctx, tokens)
}

// hasLeft reports whether an intent that was stored is stored no more. The leader's index says so.
func (lg *Ledger) hasLeft(ctx context.Context, m *Message) (bool, error) {
	no, err := order.OrderNoFromToken(m.Subject[len(lg.cfg.IntentSubjects):])
	if err != nil {
		return false, nil // only its sequence could be asked for, and no answer to that proves it (R2)
	}
	now, err := lg.store.Intent(ctx, no)
	return err == nil && (now == nil || now.Seq != m.Seq), err
}

// SettledBy reports whether a record counts this stored intent, and not only an earlier
// one with the same ID.
func (m *Message) SettledBy(r *order.Record) bool {
	id, at := m.IntentID(), m.position(0)
	if c := r.Listed(id); c != nil {
		return at.Same(c.Position)
	}
	return r.Outcome() != order.OutcomeNone && r.IntentID == id && at.Same(r.Position)
}

// isComplete reports whether a record settles this intent, and names a letter that is stored if it needs one (R4).
func (lg *Ledger) isComplete(ctx context.Context, m *Message, r *order.Record) (bool, error) {
	if !m.SettledBy(r) || !r.NeedsLetterOf(m.IntentID()) {
		return m.SettledBy(r), nil
	}
	return lg.hasLetter(ctx, lg.filedToken(m), r, m.IntentID())
}

// storedAndRecord reads the stored intent of an order_no, nil if there is none, and then the
// record about it.
func (lg *Ledger) storedAndRecord(ctx context.Context, orderNo string) (*Message, Entry, error) {
	m, err := lg.store.Intent(ctx, orderNo)
	if err != nil || m == nil {
		return nil, Entry{}, err
	}
	entry, err := lg.store.Record(ctx, lg.filedToken(m))
	if errors.Is(err, ErrUnreadable) {
		return m, Entry{}, nil
	}
	if err != nil {
		return nil, Entry{}, fmt.Errorf("order %s: %w", orderNo, err)
	}
	return m, entry, nil
}
