package settle

import (
	"context"
	"time"

	"orderpost/internal/order"
)

// The tests that run the protocol over a real broker are in package
// settle_test, because package queue imports this one. These functions give
// them single steps.

// Steps that need no part of the Protocol.
var (
	ExportNewLetter = newLetter
)

// ExportStore and ExportSetStore return and replace the store.
func (lg *Ledger) ExportStore() Store { return lg.store }

func (lg *Ledger) ExportSetStore(s Store) { lg.store = s }

func (lg *Ledger) ExportWriteRecord(ctx context.Context, token string, base Entry, mine order.Record) (Entry, error) {
	return lg.writeRecord(ctx, token, base, &mine)
}

func (wk *Worker) ExportRecord(d *Delivery, r order.Report, s order.Settlement) order.Record {
	return *wk.record(d, &r, s)
}

func (wk *Worker) ExportComplete(ctx context.Context, d *Delivery, stored Entry) error {
	return wk.complete(ctx, d, stored.Record, nil)
}

func (wk *Worker) ExportFileLetter(ctx context.Context, d *Delivery, l *Letter) error {
	return wk.ledger.fileLetter(ctx, d, l)
}

func (wk *Worker) ExportRefusal(d *Delivery, rec *order.Record) *Letter {
	return wk.ledger.refusal(d, rec)
}

// ExportLetter returns the sequence of the letter that the delivery stored.
func (d *Delivery) ExportLetter() uint64 { return d.letter }

func (wk *Worker) ExportGiveBack(d *Delivery, delay time.Duration) error {
	return wk.giveBack(context.Background(), d, d.Last, wk.ledger.time.Now(), delay)
}

func (d *Delivery) ExportWait() time.Duration { return d.wait }

func (lg *Ledger) ExportUpdateRecord(ctx context.Context, token string, decide func(*order.Record) (*order.Record, error)) (Entry, error) {
	return lg.updateRecord(ctx, token, func(cur Entry) (*order.Record, error) { return decide(cur.Record) })
}

func (op *Operator) ExportAllow(ctx context.Context, l *Letter, id string, p Person) error {
	return op.allow(ctx, l, id, p)
}

func (op *Operator) ExportPutBack(ctx context.Context, l *Letter, rec *order.Record, o ReplayOptions) (Replay, error) {
	return op.putBack(ctx, l, rec, o)
}

// ExportAdvance advances this worker's delivered high-water mark to seq.
func (wk *Worker) ExportAdvance(ctx context.Context, seq uint64) error {
	if _, _, err := wk.highWater.high(ctx, wk.ledger.link()); err != nil {
		return err
	}
	return wk.highWater.advance(ctx, seq)
}

// ExportHighWaterRead sets the state after a read that found no marks.
func (wk *Worker) ExportHighWaterRead() {
	wk.highWater.loaded, wk.highWater.link, wk.highWater.own = true, wk.ledger.link(), HighWaterMark{Stream: 1}
}

// ExportReplayID returns the ID under which the letter is replayed.
func (l *Letter) ExportReplayID() string { return l.replayID(nil) }

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
