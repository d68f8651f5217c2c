package order

import "time"

// Position names one stored copy of an intent. Seq and EnqueuedAt together identify the copy:
// two copies are the same if both are equal. Sequences tell which of two copies came first.
// EnqueuedAt is the wall clock of the server that stored it, which may be wrong and may be set,
// so it orders nothing (docs/protocol.md#what-may-a-clock-decide).
type Position struct {
	// EnqueuedAt is when the broker stored the copy, by the broker's clock. For an intent that
	// was withdrawn in the waiting room it is the time there.
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	// Seq is the copy's sequence in the intents stream. For an intent that was withdrawn in the
	// waiting room it is the sequence of the copy before; 0 = there was none.
	Seq uint64 `json:"seq,omitempty"`
	// Birth names the life of the stream: when it was created, in Unix nanoseconds. A stream that is
	// created again counts from 1 again. Births are equal or not, and have no order.
	Birth int64 `json:"birth,omitempty"`
}

// Same reports whether p and q name the same stored copy.
func (p Position) Same(q Position) bool { return p.Seq == q.Seq && p.EnqueuedAt.Equal(q.EnqueuedAt) }

// After reports whether p was stored after q. present is the birth of the stream as it is now: of
// two copies of different births, the one of the present stream came later.
func (p Position) After(q Position, present int64) bool {
	if p.Birth != q.Birth {
		return p.Birth == present
	}
	return p.Seq > q.Seq
}
