package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
)

// Cancelled counts what a cancellation found.
type Cancelled struct {
	// Withdrawn intents have the outcome cancelled (or unknown, where an
	// earlier intent of the order_no left a doubt that nothing has settled).
	Withdrawn int `json:"cancelled"`
	// Started intents were delivered to a worker before, and are left to it: it
	// may be sending the order at this moment.
	Started int `json:"started"`
}

// Cancel withdraws the intents that each passes to its argument and that no
// worker was ever given. by names who did it.
//
// A worker that has been given an intent reads the results and then posts,
// without a note before: whoever wrote `cancelled` after that reading would say
// of a posted order that it was never attempted. So deliveries are paused for
// the whole fleet meanwhile, and only what lies behind the last delivered
// sequence is withdrawn. Intents are delivered for the first time in the order
// of their sequences; a broker that was killed forgets how far it came, which
// is why the workers' own marks count too (seen.go). The pause ends by itself
// should this program end first.
//
// The outcome is written first, by R1, and the intent deleted then. A crash
// between the two leads to a delivery that finds its outcome.
func (q *Queue) Cancel(ctx context.Context, by string, each func(visit func([]*Pending) error) error) (Cancelled, error) {
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

// pauseTerm is how long deliveries stay paused should we vanish; pauseAgain is
// when the pause is extended.
const (
	pauseTerm  = 60 * time.Second
	pauseAgain = 10 * time.Second
)

type canceller struct {
	q       *Queue
	by      string
	began   time.Time
	paused  time.Time // when deliveries were last paused
	resumed bool
	reached uint64 // the last sequence that was ever delivered
	counts  Cancelled
	gone    []uint64 // sequences to delete
}

// pause stops deliveries and reads how far they came. It is called again
// before a pause runs out.
func (c *canceller) pause(ctx context.Context) error {
	if !c.paused.IsZero() && c.q.time.Now().Sub(c.paused) < pauseAgain {
		return nil
	}
	q, first := c.q, c.paused.IsZero()
	before, err := c.ask(ctx, first)
	switch {
	case err != nil && !first && before.Sub(c.paused) < pauseTerm/2:
		return nil // a busy broker; the pause holds, and the next page asks again
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
	c.reached, err = c.delivered(ctx)
	return err
}

// errPauseOver: deliveries may have gone on while intents were withdrawn.
var errPauseOver = errors.New("this program was held up and the pause of deliveries ran out; cancel again")

// ask pauses deliveries for pauseTerm from the time that it returns. The first
// pause is waited for; a later one is asked for again with the next page.
func (c *canceller) ask(ctx context.Context, first bool) (from time.Time, err error) {
	w := c.q.wait()
	defer w.over()
	for {
		from = c.q.time.Now()
		err = c.q.store.Pause(ctx, from.Add(pauseTerm))
		if err == nil || !first || !c.q.patient() || ctx.Err() != nil || !c.q.passing(err) {
			return from, err
		}
		if err := w.again(ctx, err); err != nil {
			return from, err
		}
	}
}

// delivered is the last sequence that was ever given to a worker.
func (c *canceller) delivered(ctx context.Context) (uint64, error) {
	remembered, err := c.q.store.Delivered(ctx)
	if err != nil {
		return 0, err
	}
	marked, err := newSeen(c.q).refresh(ctx)
	return max(remembered, marked), err
}

// verify makes sure that the pause held: changing the consumer's configuration
// would have ended it.
func (c *canceller) verify(ctx context.Context) error {
	now, err := c.delivered(ctx)
	if err == nil && now > c.reached {
		err = fmt.Errorf("deliveries went on although they were paused (was the consumer %s changed meanwhile?): intents up to sequence %d may have been posted before they were withdrawn; an acceptance will show in their results",
			c.q.n.consumer, now)
	}
	return err
}

// resume ends the pause: a pause into the very near future wakes the pulls that
// wait, which resuming does not.
func (c *canceller) resume() {
	if c.resumed || c.paused.IsZero() {
		return
	}
	c.resumed = true
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := c.q.store.Pause(ctx, c.q.time.Now().Add(50*time.Millisecond)); err != nil {
		c.q.log.Warn().Err(err).Dur("at_the_latest_in_ms", pauseTerm).Msg("deliveries not resumed yet; they resume by themselves")
	}
}

// cancel withdraws a page. Where an outage of the broker outlasted the pause, it
// pauses deliveries again and takes the page from the start.
func (c *canceller) cancel(ctx context.Context, page []*Pending) error {
	for {
		err := c.cancelPage(ctx, page)
		over := errors.Is(err, errPauseOver) || c.q.passing(err)
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
	ctx, cancel := c.q.time.WithDeadline(ctx, c.paused.Add(pauseTerm-2*requestTimeout))
	defer cancel()
	err := c.withdraw(ctx, page)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errPauseOver, err)
	}
	return err
}

func (c *canceller) withdraw(ctx context.Context, page []*Pending) error {
	numbers := make([]string, len(page))
	for i, p := range page {
		numbers[i] = p.OrderNo
	}
	last, err := c.q.Records(ctx, numbers)
	if err != nil {
		return err
	}
	type withdrawal struct {
		p    *Pending
		last Entry
	}
	var todo []withdrawal
	var gone []uint64
	started, before := 0, 0
	for i, p := range page {
		rec := last[i].Record
		settled := rec.Outcome() != order.OutcomeNone && rec.IntentID == p.ID
		switch {
		case settled && c.ours(rec): // the page is taken for the second time
			gone, before = append(gone, p.Seq), before+1
			continue
		case settled:
			continue // its acknowledgement is on its way
		case p.Seq <= c.reached, last[i].Unreadable != nil: // a worker's, or a newer version's to say
			started++
			continue
		}
		gone = append(gone, p.Seq)
		todo = append(todo, withdrawal{p, last[i].Entry})
	}
	var withdrawn atomic.Int64
	err = c.q.time.Each(len(todo), maxWriteBatch, func(i int) error {
		if err := c.write(ctx, todo[i].p, todo[i].last); err != nil {
			return fmt.Errorf("order %s: %w", todo[i].p.OrderNo, err)
		}
		withdrawn.Add(1)
		return nil
	})
	if err != nil && c.q.patient() && ctx.Err() != nil {
		return err // the page is taken again
	}
	c.counts.Withdrawn += before + int(withdrawn.Load())
	c.counts.Started += started
	if c.gone = append(c.gone, gone...); err != nil {
		c.gone = nil // which of them have their outcome is not known; deliveries will tell
	}
	return err
}

// ours: this run wrote the outcome, and did not come to count it.
func (c *canceller) ours(r *order.Record) bool {
	return c.q.patient() && r.By == c.by && r.Reason == withdrawnReason && !r.SettledAt.Before(c.began)
}

const withdrawnReason = "withdrawn before any attempt"

func (c *canceller) write(ctx context.Context, p *Pending, last Entry) error {
	now := c.q.time.Now().UTC()
	rec := order.Record{OrderNo: p.OrderNo, Reason: withdrawnReason, By: c.by, SettledAt: now,
		EnqueuedAt: p.StoredAt.UTC(), Batch: p.Batch, IntentID: p.ID, BodyHash: p.BodyHash}
	rec.SetOutcome(order.OutcomeCancelled)
	_, err := c.q.writeRecord(ctx, fileToken(order.Token(p.OrderNo)), last, rec)
	return err
}

// remove deletes the withdrawn intents. A worker may be given one of them at
// the same time, and finds it settled; what is not deleted here is acknowledged
// by a worker.
func (c *canceller) remove(ctx context.Context) {
	_ = c.q.time.Each(len(c.gone), leaderReads, func(i int) error {
		if err := c.q.store.DeleteIntent(ctx, c.gone[i]); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			c.q.log.Debug().Err(err).Uint64("sequence", c.gone[i]).Msg("withdrawn intent not deleted; a worker will acknowledge it")
		}
		return nil
	})
}

// CancelBatch withdraws what was never delivered of an import, and notes that
// it was cancelled, so that a run that is still under way stops.
func (q *Queue) CancelBatch(ctx context.Context, batch, by string) (Cancelled, error) {
	for {
		i, err := q.Import(ctx, batch)
		if err != nil {
			return Cancelled{}, err
		}
		if i == nil {
			break
		}
		i.CancelledAt = time.Now().UTC()
		if err := q.SaveImport(ctx, i); err == nil {
			break
		} else if !errors.Is(err, ErrImportChanged) {
			return Cancelled{}, err
		}
	}
	return q.Cancel(ctx, by, func(visit func([]*Pending) error) error { return q.EachPending(ctx, batch, visit) })
}

// CancelOrder withdraws the pending intent of one order_no.
func (q *Queue) CancelOrder(ctx context.Context, orderNo, by string) (Cancelled, error) {
	return q.Cancel(ctx, by, func(visit func([]*Pending) error) error {
		standings, err := q.Standings(ctx, []string{orderNo})
		if err != nil || standings[0].Pending == nil {
			return err
		}
		return visit([]*Pending{standings[0].Pending})
	})
}
