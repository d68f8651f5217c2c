package settle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

// Cancelled counts what a cancellation found.
type Cancelled struct {
	// Withdrawn counts the intents whose outcome is now cancelled, or unknown
	// if an earlier intent of the order_no left a doubt that nothing has
	// settled.
	Withdrawn int `json:"cancelled"`
	// Started counts the intents that were delivered to a worker before. Cancel
	// leaves them alone, because a worker may be posting the order at this
	// moment.
	Started int `json:"started"`
}

// Cancel withdraws the intents that each passes to its argument, unless a
// worker was ever given them. by names who did it.
//
// A worker that is given an intent reads the results and then posts, without a
// note in between. A `cancelled` written after that read would claim that a
// posted order was never attempted. Cancel therefore pauses deliveries for the
// whole fleet and withdraws only intents above the last delivered sequence. The
// broker delivers intents for the first time in the order of their sequences. A
// broker that was killed forgets how far it came, so the workers' own
// high-water marks count as well (highwater.go). If this program dies, the
// pause ends by itself.
//
// Cancel writes the outcome first, by R1, and deletes the intent afterwards.
// After a crash between the two, the next delivery finds the outcome.
func (q *Protocol) Cancel(ctx context.Context, by string, each func(visit func([]*Pending) error) error) (Cancelled, error) {
	c := &canceller{q: q, by: by, began: q.time.Now()}
	defer c.resume()
	if err := c.pause(ctx); err != nil {
		return c.counts, err
	}
	err := each(func(page []*Pending) error { return c.cancel(ctx, page) })
	if err == nil {
		err = c.verify(ctx)
	}
	c.resume()
	c.remove(ctx)
	return c.counts, err
}

// pauseTerm is how long deliveries stay paused if this program dies. pauseAgain
// is the age at which the pause is extended.
const (
	pauseTerm  = 60 * time.Second
	pauseAgain = 10 * time.Second
)

// canceller is one run of Cancel.
type canceller struct {
	q             *Protocol
	by            string
	began         time.Time
	paused        time.Time // when deliveries were paused last
	resumed       bool
	lastDelivered uint64 // the highest sequence that a worker was ever given
	counts        Cancelled
	toDelete      []uint64 // sequences of the withdrawn intents
}

// pause stops deliveries and reads how far they came. Before a pause ends, the
// next call extends it.
func (c *canceller) pause(ctx context.Context) error {
	if !c.paused.IsZero() && c.q.time.Now().Sub(c.paused) < pauseAgain {
		return nil
	}
	q, first := c.q, c.paused.IsZero()
	before, err := c.pauseOnce(ctx, first)
	switch {
	case err != nil && !first && before.Sub(c.paused) < pauseTerm/2:
		return nil // the broker is busy, the pause still holds, and the next page tries again
	case err != nil:
		return fmt.Errorf("deliveries not paused: %w", err)
	}
	if !first && q.time.Now().Sub(c.paused) >= pauseTerm {
		return errPauseOver
	}
	c.paused = before
	if !first {
		return c.verify(ctx)
	}
	c.lastDelivered, err = c.delivered(ctx)
	return err
}

// errPauseOver means that deliveries may have gone on while intents were
// withdrawn.
var errPauseOver = errors.New("this program was held up and the pause of deliveries ended; run the cancellation again")

// pauseOnce pauses deliveries until pauseTerm after from. It retries the first
// pause while the broker is out of reach. The next page retries a later one.
func (c *canceller) pauseOnce(ctx context.Context, first bool) (from time.Time, err error) {
	w := c.q.cfg.Patience.Wait()
	defer w.Done()
	for {
		from = c.q.time.Now()
		err = c.q.store.Pause(ctx, from.Add(pauseTerm))
		if err == nil || !first || ctx.Err() != nil || !c.q.cfg.Patience.Transient(err) {
			return from, err
		}
		if err := w.Backoff(ctx, err); err != nil {
			return from, err
		}
	}
}

// delivered returns the highest sequence that a worker was ever given.
func (c *canceller) delivered(ctx context.Context) (uint64, error) {
	remembered, err := c.q.store.Delivered(ctx)
	if err != nil {
		return 0, err
	}
	marked, err := newHighWater(c.q).high(ctx)
	return max(remembered, marked), err
}

// verify returns an error if the broker delivered intents during the pause. A
// change of the consumer's configuration ends a pause.
func (c *canceller) verify(ctx context.Context) error {
	now, err := c.delivered(ctx)
	if err == nil && now > c.lastDelivered {
		err = fmt.Errorf("the broker delivered intents during the pause (was the workers' consumer changed?): workers may have posted intents up to sequence %d before they were withdrawn; the results will show each acceptance", now)
	}
	return err
}

// resume ends the pause by setting its end to the near future. That wakes the
// pulls that wait, and resuming the consumer does not.
func (c *canceller) resume() {
	if c.resumed || c.paused.IsZero() {
		return
	}
	c.resumed = true
	ctx, cancel := context.WithTimeout(context.Background(), RequestTimeout)
	defer cancel()
	if err := c.q.store.Pause(ctx, c.q.time.Now().Add(50*time.Millisecond)); err != nil {
		c.q.log.Warn().Err(err).Dur("at_the_latest_in_ms", pauseTerm).Msg("deliveries could not be resumed; they resume by themselves when the pause ends")
	}
}

// cancel withdraws a page. If an outage of the broker outlasted the pause, it
// pauses deliveries again and starts the page over.
func (c *canceller) cancel(ctx context.Context, page []*Pending) error {
	for {
		err := c.cancelPage(ctx, page)
		over := errors.Is(err, errPauseOver) || c.q.cfg.Patience.Transient(err)
		if !over || ctx.Err() != nil || !c.q.patient() {
			return err
		}
		c.paused = time.Time{}
	}
}

func (c *canceller) cancelPage(ctx context.Context, page []*Pending) error {
	if err := c.pause(ctx); err != nil {
		return err
	}
	// A write that waits for its broker must not outlive the pause.
	ctx, cancel := c.q.time.WithDeadline(ctx, c.paused.Add(pauseTerm-2*RequestTimeout))
	defer cancel()
	err := c.withdraw(ctx, page)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errPauseOver, err)
	}
	return err
}

func (c *canceller) withdraw(ctx context.Context, page []*Pending) error {
	last, err := c.q.LastWords(ctx, numbersOf(page))
	if err != nil {
		return err
	}
	s := c.classify(page, last)
	var withdrawn atomic.Int64
	err = c.q.time.Each(len(s.todo), cancelAtOnce, func(i int) error {
		if err := c.write(ctx, s.todo[i].p, s.todo[i].last); err != nil {
			return fmt.Errorf("order %s: %w", s.todo[i].p.OrderNo, err)
		}
		withdrawn.Add(1)
		return nil
	})
	if err != nil && c.q.patient() && ctx.Err() != nil {
		return err // cancel starts the page over
	}
	c.counts.Withdrawn += len(s.already) + int(withdrawn.Load())
	c.counts.Started += s.started
	c.toDelete = append(c.toDelete, s.already...)
	for _, w := range s.todo {
		c.toDelete = append(c.toDelete, w.p.Seq)
	}
	if err != nil {
		c.toDelete = nil // it is unknown which of them have an outcome; their deliveries will tell
	}
	return err
}

// withdrawal is an intent to withdraw, with the last word on its order_no.
type withdrawal struct {
	p    *Pending
	last Entry
}

// numbersOf returns the order numbers of a page.
func numbersOf(page []*Pending) []string {
	numbers := make([]string, len(page))
	for i, p := range page {
		numbers[i] = p.OrderNo
	}
	return numbers
}

// classified is a page of pending intents, sorted by what a cancellation does
// with them.
type classified struct {
	todo    []withdrawal
	already []uint64 // sequences that this run withdrew when it processed the page before
	started int      // left to a worker
}

// classify sorts a page by the last words on its orders.
func (c *canceller) classify(page []*Pending, last []LastWord) (s classified) {
	for i, p := range page {
		rec := last[i].Record
		switch {
		case rec.Settles(p.ID) && c.writtenBefore(rec):
			s.already = append(s.already, p.Seq)
		case rec.Settles(p.ID): // a worker is about to acknowledge it
		case p.Seq <= c.lastDelivered, last[i].Unreadable != nil: // a worker or a newer version decides
			s.started++
		default:
			s.todo = append(s.todo, withdrawal{p, last[i].Entry})
		}
	}
	return s
}

// writtenBefore reports whether this run wrote the outcome on an earlier pass
// over the page and was interrupted before it counted it.
func (c *canceller) writtenBefore(r *order.Record) bool {
	return c.q.patient() && r.By == c.by && r.Reason == withdrawnReason && !r.SettledAt.Before(c.began)
}

const withdrawnReason = "withdrawn before any attempt"

// WouldCancel counts what Cancel would withdraw now, and changes nothing. It
// does not pause deliveries, so workers may start more intents before Cancel
// runs.
func (q *Protocol) WouldCancel(ctx context.Context, each func(visit func([]*Pending) error) error) (Cancelled, error) {
	c := &canceller{q: q}
	var err error
	if c.lastDelivered, err = c.delivered(ctx); err != nil {
		return c.counts, err
	}
	err = each(func(page []*Pending) error {
		last, err := q.LastWords(ctx, numbersOf(page))
		if err == nil {
			s := c.classify(page, last)
			c.counts.Withdrawn += len(s.todo)
			c.counts.Started += s.started
		}
		return err
	})
	return c.counts, err
}

// write writes the outcome cancelled for one intent.
func (c *canceller) write(ctx context.Context, p *Pending, last Entry) error {
	now := c.q.time.Now().UTC()
	rec := order.Record{OrderNo: p.OrderNo, Reason: withdrawnReason, By: c.by, SettledAt: now,
		EnqueuedAt: p.StoredAt.UTC(), Batch: p.Batch, IntentID: p.ID, BodyHash: p.BodyHash}
	rec.SetOutcome(order.OutcomeCancelled)
	_, err := c.q.writeRecord(ctx, FileToken(order.Token(p.OrderNo)), last, rec)
	return err
}

// remove deletes the withdrawn intents. A worker that is given one at the same
// time finds it settled. An intent that is not deleted here is acknowledged by
// a worker.
func (c *canceller) remove(ctx context.Context) {
	_ = c.q.time.Each(len(c.toDelete), LeaderReads, func(i int) error {
		if err := c.q.store.DeleteIntent(ctx, c.toDelete[i]); err != nil {
			c.q.log.Debug().Err(err).Uint64("sequence", c.toDelete[i]).Msg("withdrawn intent not deleted; a worker will acknowledge it")
		}
		return nil
	})
}
