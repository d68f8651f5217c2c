package settle

import (
	"context"
	"time"

	"orderpost/internal/order"
)

// The tests that run the protocol over a real broker lie in settle_test, since
// package queue imports this one. They take single steps of it by what follows.

// The headers of a replayed intent.
const (
	ExportHeaderReplays = headerReplays
	ExportHeaderEarlier = headerEarlier
)

// Steps that need no Protocol.
var (
	ExportNewLetter = newLetter
	ExportResolved  = resolved
)

// ExportStore and ExportSetStore give and replace what the protocol works on.
func (q *Protocol) ExportStore() Store { return q.store }

func (q *Protocol) ExportSetStore(s Store) { q.store = s }

func (q *Protocol) ExportWriteRecord(ctx context.Context, token string, base Entry, mine order.Record) (Entry, error) {
	return q.writeRecord(ctx, token, base, mine)
}

func (q *Protocol) ExportRecord(d *Delivery, r order.Report, s order.Settlement) order.Record {
	return q.record(d, r, s)
}

func (q *Protocol) ExportComplete(ctx context.Context, d *Delivery, stored Entry, trail []order.Attempt) error {
	return q.complete(ctx, d, stored, trail)
}

func (q *Protocol) ExportFileLetter(ctx context.Context, d *Delivery, l *Letter) error {
	return q.fileLetter(ctx, d, l)
}

func (q *Protocol) ExportFileFailure(ctx context.Context, d *Delivery, l *Letter) error {
	return q.fileFailure(ctx, d, l)
}

func (q *Protocol) ExportRefusal(d *Delivery, rec *order.Record, why Work) *Letter {
	return q.refusal(d, rec, why)
}

func (q *Protocol) ExportGiveBack(d *Delivery, delay time.Duration) error {
	return q.giveBack(d, delay)
}

func (q *Protocol) ExportAmend(ctx context.Context, token string, decide func(*order.Record) (*order.Record, error)) (Entry, error) {
	return q.amend(ctx, token, decide)
}

func (q *Protocol) ExportAllow(ctx context.Context, l *Letter, id string, p Person) error {
	return q.allow(ctx, l, id, p)
}

func (q *Protocol) ExportPutBack(ctx context.Context, l *Letter, rec *order.Record, o ReplayOptions) (Replay, error) {
	return q.putBack(ctx, l, rec, o)
}

// ExportCancelHalf writes the outcomes of a cancellation, and ends before it
// removes the intents.
func (q *Protocol) ExportCancelHalf(ctx context.Context, by string, each func(visit func([]*Pending) error) error) error {
	c := &canceller{q: q, by: by}
	defer c.resume()
	if err := c.pause(ctx); err != nil {
		return err
	}
	return each(func(page []*Pending) error { return c.cancel(ctx, page) })
}

// ExportMark writes this worker's mark of deliveries.
func (q *Protocol) ExportMark(ctx context.Context, seq uint64) error {
	if _, err := q.seen.refresh(ctx); err != nil {
		return err
	}
	return q.seen.reach(ctx, seq)
}

// ExportMarksRead is the state after the marks of deliveries were read, and none
// was there.
func (q *Protocol) ExportMarksRead() {
	q.seen.loaded, q.seen.epoch, q.seen.own = true, q.disconnects.Load(), Mark{Stream: 1}
}

// ExportReplayID is the ID under which the letter is replayed.
func (l *Letter) ExportReplayID() string { return l.replayID() }

// ExportEnd is what became of the refused intent that the letter is about.
func (l *Letter) ExportEnd(stood *order.Record) *order.Record { return l.end(stood) }

// ExportToken is what the delivery's records are filed under.
func (d *Delivery) ExportToken() string { return d.token }

// ExportAnswer and ExportSetAnswer give and replace the way back to the broker.
func (d *Delivery) ExportAnswer() Answer { return d.answer }

func (d *Delivery) ExportSetAnswer(a Answer) { d.answer = a }

// ExportCounted is the number of the delivery as the broker said it.
func (d *Delivery) ExportCounted() uint64 { return d.counted }

// ExportSetLife makes another run of the broker the one that delivered.
func (d *Delivery) ExportSetLife(life string) { d.life = life }

// ExportEndNow ends the claim.
func (l *Lease) ExportEndNow() { l.endNow() }

// ExportSince is when the claim began to run last, and whether it is over.
func (l *Lease) ExportSince() (since time.Time, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.over
}
