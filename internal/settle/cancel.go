package settle

import (
	"context"
	"errors"
	"fmt"
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

// withdraw settles waiting intents that a person cancelled (R13), and sets their ends.
//
// It leaves an intent where it is while another one of the order_no is stored: the record
// is about that one. For any other intent it writes the outcome by R1, and the caller
// removes the intent afterwards. If it is cut off between the two, the next move recognises
// the outcome.
//
// A publish of this process that may be on its way would bring an intent into the queue
// beside its outcome. withdraw waits for its end: the ends stay MoveLater.
func (mv *Mover) withdraw(ctx context.Context, cancelled []*withdrawing, may func() error) error {
	if len(cancelled) == 0 || mv.MoveUnderWay() {
		return nil
	}
	open, err := mv.withdrawable(ctx, cancelled)
	if err != nil {
		return err
	}
	birth, _, err := mv.ledger.store.Stream(ctx)
	if err != nil {
		return err
	}
	return mv.ledger.time.Each(len(open), withdrawAtOnce, func(i int) error {
		if err := may(); err != nil {
			return err
		}
		in := open[i]
		stored, err := mv.writeWithdrawn(ctx, in, birth)
		switch {
		case errors.Is(err, errWritten): // it may have been moved; the next move decides
		case err != nil:
			return fmt.Errorf("order %s: %w", in.orderNo, err)
		case stored.Knows(in.id, in.bodyHash()):
			in.end = Withdrawn
		}
		return nil
	})
}

// withdrawable returns the intents to withdraw now, one of each order_no: two outcomes of
// one must not be written at once. It sets the end of those that must not be withdrawn.
func (mv *Mover) withdrawable(ctx context.Context, cancelled []*withdrawing) (open []*withdrawing, err error) {
	// The queue after the records: what is settled but still in the queue must be found by
	// its redelivery, and what is settled from now on makes the write fail.
	numbers := make([]string, len(cancelled))
	for i, in := range cancelled {
		numbers[i] = in.orderNo
	}
	queued, err := mv.ledger.store.Intents(ctx, numbers)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(cancelled))
	for i, in := range cancelled {
		last := in.last.Record
		switch {
		case in.last.Unreadable != nil:
			in.end = MoveBlocked
		case last.Knows(in.id, in.bodyHash()), in.isStoredAs(queued[i]):
			in.end = MovedBefore
		case queued[i] != nil, last != nil && last.Outcome() == order.OutcomeNone:
			in.end = MoveBlocked
		case !seen[in.orderNo]:
			seen[in.orderNo], open = true, append(open, in)
		}
	}
	return open, nil
}

// withdrawAtOnce bounds the outcomes under way.
const withdrawAtOnce = 256

// writeWithdrawn writes the outcome cancelled of a waiting intent, and returns the
// record that the stream holds afterwards. The intent never reached
// the queue, so it has the position of the copy that the last record names: it came after that one, and before
// any that is stored from now on. birth is that of the queue's stream. It returns errWritten if the
// record is another one by now: a move whose publish was on its way may have given the
// intent to a worker.
func (mv *Mover) writeWithdrawn(ctx context.Context, w *withdrawing, birth int64) (*order.Record, error) {
	rec := order.Record{OrderNo: w.orderNo, Reason: withdrawnReason, By: w.mark.By, SettledAt: mv.ledger.time.Now().UTC(), Position: order.Position{EnqueuedAt: w.storedAt.UTC(), Birth: birth},
		Batch: order.Truncate(w.msg.Header.Get(HeaderBatch), maxLabel), Source: order.Truncate(w.msg.Header.Get(HeaderSource), maxLabel),
		IntentID: w.id, Waited: true, Unqueued: true}
	if last := w.last.Record; last != nil {
		if before := last.Last(birth); before.Birth == birth {
			rec.Seq = before.Seq
		}
	}
	rec.BodyHash = w.bodyHash()
	rec.SetOutcome(order.OutcomeCancelled)
	stored, err := mv.ledger.writeOver(ctx, FileToken(order.Token(w.orderNo)), w.last.entry(), &rec)
	return stored.Record, err
}
