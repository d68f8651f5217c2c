package settle

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
)

// Standing is what the streams hold about one order_no.
type Standing struct {
	// Pending is the stored intent; nil where none waits or is worked on.
	Pending *Pending
	// Entry is the last word; its Record is nil where there is none.
	Entry
	// Unreadable: there is a last word that this program does not understand.
	Unreadable error
}

// Pending is a stored intent.
type Pending struct {
	OrderNo  string
	Seq      uint64
	StoredAt time.Time
	// ID and Batch are as in Intent.
	ID, Batch string
	// BodyHash is that of the canonical body; "" for a body that can never be
	// sent.
	BodyHash string
}

// Records reads the last word on each order_no, in the order of orderNos. An
// unreadable one has its error in Unreadable, and no record.
func (q *Protocol) Records(ctx context.Context, orderNos []string) ([]Standing, error) {
	tokens := make([]string, len(orderNos))
	for i, no := range orderNos {
		tokens[i] = FileToken(order.Token(no))
	}
	words, err := q.wordsOn(ctx, tokens)
	out := make([]Standing, len(orderNos))
	for i, w := range words {
		out[i].Entry, out[i].Unreadable = w.entry(), w.unreadable
	}
	return out, err
}

// wordsOn reads in batches where those are exact, else at the leader.
func (q *Protocol) wordsOn(ctx context.Context, tokens []string) ([]word, error) {
	if len(tokens) == 1 {
		return q.leaderWords(ctx, tokens)
	}
	words, err := q.lastWords(ctx, tokens)
	if err != nil && q.store.Replicated() && ctx.Err() == nil && !errors.Is(err, ErrUnreachable) {
		return q.leaderWords(ctx, tokens)
	}
	return words, err
}

// ReadPending reads a stored intent.
func ReadPending(orderNo string, raw *Message) *Pending {
	p := &Pending{OrderNo: orderNo, Seq: raw.Seq, StoredAt: raw.Time, Batch: order.Truncate(raw.Header.Get(HeaderBatch), maxLabel),
		ID: IntentID(raw.Header.Get(HeaderIntentID), raw.Seq, raw.Time)}
	if parsed, err := order.Parse(raw.Data); err == nil {
		p.BodyHash = parsed.BodyHash()
	}
	return p
}
