package settle

import (
	"context"
	"time"

	"orderpost/internal/order"
)

// The tests that run the protocol over a real broker are in package
// settle_test, because package queue imports this one. These functions give
// them single steps.

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

// ExportStore and ExportSetStore return and replace the store.
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

func (q *Protocol) ExportUpdateRecord(ctx context.Context, token string, decide func(*order.Record) (*order.Record, error)) (Entry, error) {
	return q.updateRecord(ctx, token, func(cur Entry) (*order.Record, error) { return decide(cur.Record) })
}

func (q *Protocol) ExportAllow(ctx context.Context, l *Letter, id string, p Person) error {
	return q.allow(ctx, l, id, p)
}

func (q *Protocol) ExportPutBack(ctx context.Context, l *Letter, rec *order.Record, o ReplayOptions) (Replay, error) {
	return q.putBack(ctx, l, rec, o)
}

// ExportAdvance advances this worker's delivered high-water mark to seq.
func (q *Protocol) ExportAdvance(ctx context.Context, seq uint64) error {
	if _, err := q.highWater.high(ctx, q.link()); err != nil {
		return err
	}
	return q.highWater.advance(ctx, seq)
}

// ExportHighWaterRead sets the state after a read that found no marks.
func (q *Protocol) ExportHighWaterRead() {
	q.highWater.loaded, q.highWater.link, q.highWater.own = true, q.link(), HighWaterMark{Stream: 1}
}

// ExportReplayID returns the ID under which the letter is replayed.
func (l *Letter) ExportReplayID() string { return l.replayID() }

// ExportRefusedRecord returns the record of the refused intent.
func (l *Letter) ExportRefusedRecord(stood *order.Record) *order.Record {
	return l.refusedRecord(stood)
}

// ExportToken returns the token that the delivery's records are filed under.
func (d *Delivery) ExportToken() string { return d.token }

// ExportAnswer and ExportSetAnswer return and replace the delivery's Answer.
func (d *Delivery) ExportAnswer() Answer { return d.answer }

func (d *Delivery) ExportSetAnswer(a Answer) { d.answer = a }

// ExportCounted returns the broker's count of deliveries.
func (d *Delivery) ExportCounted() uint64 { return d.counted }

// ExportBeforeMark makes a delivery one of an earlier run of the broker, which
// was killed before it confirmed a high-water mark.
func (d *Delivery) ExportBeforeMark() { d.serverID, d.marked = "the one before", false }

// ExportBeforeRestart makes a delivery one of an earlier run of the broker.
func (d *Delivery) ExportBeforeRestart() { d.serverID = "the one before" }

// ExportEndNow ends the claim.
func (l *Lease) ExportEndNow() { l.endNow() }

// ExportSince returns when the claim began to run last, and whether it has
// ended.
func (l *Lease) ExportSince() (since time.Time, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.over
}

// ExportLookedLongAgo makes the last look at the delivery's record an old one.
func (d *Delivery) ExportLookedLongAgo() { d.looked = time.Time{} }

// ExportLookedJustNow makes it a new one, for as long as the test runs.
func (d *Delivery) ExportLookedJustNow() { d.looked = time.Now().Add(time.Hour) }
