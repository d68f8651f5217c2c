package settle

import (
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

// Cancellation is a person's mark: the orders that it covers must not be posted any more.
// It covers one import or one order_no, and only what was stored when it was made: nothing of a
// stream that was made again since. Exactly one of Import and OrderNo is set.
//
// Whoever owns an intent settles it: the worker that is given it, or the feeder while it
// waits (R13). A mark that its owner has not seen yet means one more order that is posted,
// and recorded as what it is. So nothing depends on when a mark is seen.
type Cancellation struct {
	// Import is the token under which the intents of an import wait (ImportToken).
	Import string `json:"import,omitempty"`
	// OrderNo is the order_no, if one order is cancelled.
	OrderNo string `json:"order_no,omitempty"`
	// Queued and Waiting are the last sequences that are covered: in the intents stream,
	// and in the waiting room.
	Queued  StreamSeq `json:"queued"`
	Waiting StreamSeq `json:"waiting"`
	// Found are the sequences of the order_no in the waiting room, whose subjects do not
	// name orders.
	Found []uint64  `json:"found,omitempty"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	// Moved is set once nothing that is covered waits: what was moved before has at most
	// this sequence in the intents stream.
	Moved StreamSeq `json:"moved,omitzero"`
}

// Cancellations are all marks at one moment.
type Cancellations struct {
	// Version grows with each change.
	Version int64          `json:"version"`
	Marks   []Cancellation `json:"marks,omitempty"`
}

// marks are the cancellations that a process knows.
type marks struct {
	Cancellations
	changed chan struct{} // closed when another version is known
}

// cancelled holds the marks. Its zero value knows none.
type cancelled struct{ now atomic.Pointer[marks] }

func (c *cancelled) load() *marks {
	if m := c.now.Load(); m != nil {
		return m
	}
	c.now.CompareAndSwap(nil, &marks{changed: make(chan struct{})})
	return c.now.Load()
}

// Covers reports whether the mark covers an intent. waiting is the sequence that it has or
// had in the waiting room, and queued the one in the intents stream; zero = none. What came out
// of another waiting room than the mark's is covered if it was in the queue.
func (c *Cancellation) Covers(importToken, orderNo string, queued, waiting StreamSeq) bool {
	if c.OrderNo != "" && c.OrderNo != orderNo || c.OrderNo == "" && c.Import != importToken {
		return false
	}
	if waiting.Seq > 0 && waiting.Birth == c.Waiting.Birth {
		return c.Waiting.Covers(waiting)
	}
	return c.Queued.Covers(queued)
}

// About reports whether a record may be about an intent that the mark covers.
func (c *Cancellation) About(r *order.Record) bool {
	if c.OrderNo != "" {
		return c.OrderNo == r.OrderNo
	}
	return c.Import == ImportToken(r.Batch)
}

// CoversOf returns up to which sequence in the waiting room of this birth the marks cover an import.
func (c *Cancellations) CoversOf(importToken string, birth int64) (upTo uint64) {
	for i := range c.Marks {
		if m := &c.Marks[i]; m.OrderNo == "" && m.Import == importToken && m.Waiting.Birth == birth {
			upTo = max(upTo, m.Waiting.Seq)
		}
	}
	return upTo
}

// find returns the mark that covers an intent; nil = none does.
func (m *marks) find(importToken, orderNo string, queued, waiting StreamSeq) *Cancellation {
	for i := range m.Marks {
		if m.Marks[i].Covers(importToken, orderNo, queued, waiting) {
			return &m.Marks[i]
		}
	}
	return nil
}

// withdrawnReason is the reason in the records of cancelled intents.
const withdrawnReason = "withdrawn by a person"
