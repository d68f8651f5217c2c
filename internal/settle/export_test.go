package settle

import "time"

// The tests that run the protocol over a real broker are in package
// settle_test, because package queue imports this one. These functions give
// them single steps.

// ExportSetStore replaces the store.
func (lg *Ledger) ExportSetStore(s Store) { lg.store = s }

func (d *Delivery) ExportWait() time.Duration { return d.wait }

// ExportHighWaterRead sets the state after a read that found no marks.
func (wk *Worker) ExportHighWaterRead() {
	wk.highWater.loaded, wk.highWater.link, wk.highWater.own = true, wk.ledger.link(), HighWaterMark{Stream: 1}
}

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
