package settle

import (
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
	// WaitedAt is the sequence that the intent had in the waiting room; 0 = it never
	// waited.
	WaitedAt uint64
}

// ReadPending reads a stored intent from its message.
func ReadPending(orderNo string, raw *Message) *Pending {
	p := &Pending{OrderNo: orderNo, Seq: raw.Seq, StoredAt: raw.Time,
		Batch: order.Truncate(raw.Header.Get(HeaderBatch), maxLabel), Source: order.Truncate(raw.Header.Get(HeaderSource), maxLabel),
		ID: raw.IntentID(), WaitedAt: waitedAt(raw)}
	if parsed, err := order.Parse(raw.Data); err == nil {
		p.BodyHash = parsed.BodyHash()
	}
	return p
}
