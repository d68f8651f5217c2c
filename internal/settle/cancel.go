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
func (q *Protocol) Cancel(ctx context.Context, by string, each func(visit func([]*Pending) error) error) (Cancelled, error) {
	c := &canceller{q: q, by: by}
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
	q       *Protocol
	by      string
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
	before := q.time.Now()
	err := q.store.Pause(ctx, before.Add(pauseTerm))
	switch {
	case err != nil && !first && before.Sub(c.paused) < pauseTerm/2:
		return nil // a busy broker; the pause holds, and the next page asks again
	case err != nil:
		return fmt.Errorf("deliveries not paused: %w", err)
	}
	if !first && q.time.Now().Sub(c.paused) >= pauseTerm {
		return errors.New("this program was held up and the pause of deliveries ran out; cancel again")
	}
	c.paused = before
	if !first {
		return c.verify(ctx)
	}
	c.reached, err = c.delivered(ctx)
	return err
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
		err = fmt.Errorf("deliveries went on although they were paused (was the workers' consumer changed meanwhile?): intents up to sequence %d may have been posted before they were withdrawn; an acceptance will show in their results", now)
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
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := c.q.store.Pause(ctx, c.q.time.Now().Add(50*time.Millisecond)); err != nil {
		c.q.log.Warn().Err(err).Dur("at_the_latest_in_ms", pauseTerm).Msg("deliveries not resumed yet; they resume by themselves")
	}
}

func (c *canceller) cancel(ctx context.Context, page []*Pending) error {
	if err := c.pause(ctx); err != nil {
		return err
	}
	// A write that waits for its broker must not outlive the pause.
	ctx, cancel := c.q.time.WithDeadline(ctx, c.paused.Add(pauseTerm-2*answerTimeout))
	defer cancel()
	last, err := c.q.Records(ctx, numbersOf(page))
	if err != nil {
		return err
	}
	todo := c.sort(page, last)
	for _, w := range todo {
		c.gone = append(c.gone, w.p.Seq)
	}
	var withdrawn atomic.Int64
	err = c.q.time.Each(len(todo), cancelAtOnce, func(i int) error {
		if err := c.write(ctx, todo[i].p, todo[i].last); err != nil {
			return fmt.Errorf("order %s: %w", todo[i].p.OrderNo, err)
		}
		withdrawn.Add(1)
		return nil
	})
	c.counts.Withdrawn += int(withdrawn.Load())
	if err != nil {
		c.gone = nil // which of them have their outcome is not known; deliveries will tell
	}
	return err
}

type withdrawal struct {
	p    *Pending
	last Entry
}

func numbersOf(page []*Pending) []string {
	numbers := make([]string, len(page))
	for i, p := range page {
		numbers[i] = p.OrderNo
	}
	return numbers
}

// sort gives the intents that can be withdrawn, and counts those that were
// started.
func (c *canceller) sort(page []*Pending, last []Standing) (todo []withdrawal) {
	for i, p := range page {
		switch {
		case last[i].Record.Settles(p.ID): // its acknowledgement is on its way
		case p.Seq <= c.reached, last[i].Unreadable != nil: // a worker's, or a newer version's to say
			c.counts.Started++
		default:
			todo = append(todo, withdrawal{p, last[i].Entry})
		}
	}
	return todo
}

// WouldCancel counts what Cancel would withdraw now, and changes nothing: no
// delivery is paused, so that more may have been started by the time of Cancel.
func (q *Protocol) WouldCancel(ctx context.Context, each func(visit func([]*Pending) error) error) (Cancelled, error) {
	c := &canceller{q: q}
	var err error
	if c.reached, err = c.delivered(ctx); err != nil {
		return c.counts, err
	}
	err = each(func(page []*Pending) error {
		last, err := q.Records(ctx, numbersOf(page))
		if err == nil {
			c.counts.Withdrawn += len(c.sort(page, last))
		}
		return err
	})
	return c.counts, err
}

func (c *canceller) write(ctx context.Context, p *Pending, last Entry) error {
	now := c.q.time.Now().UTC()
	rec := order.Record{OrderNo: p.OrderNo, Reason: "withdrawn before any attempt", By: c.by, SettledAt: now,
		EnqueuedAt: p.StoredAt.UTC(), Batch: p.Batch, IntentID: p.ID, BodyHash: p.BodyHash}
	rec.SetOutcome(order.OutcomeCancelled)
	_, err := c.q.writeRecord(ctx, FileToken(order.Token(p.OrderNo)), last, rec)
	return err
}

// remove deletes the withdrawn intents. A worker may be given one of them at
// the same time, and finds it settled; what is not deleted here is acknowledged
// by a worker.
func (c *canceller) remove(ctx context.Context) {
	_ = c.q.time.Each(len(c.gone), leaderReads, func(i int) error {
		if err := c.q.store.DeleteIntent(ctx, c.gone[i]); err != nil {
			c.q.log.Debug().Err(err).Uint64("sequence", c.gone[i]).Msg("withdrawn intent not deleted; a worker will acknowledge it")
		}
		return nil
	})
}
