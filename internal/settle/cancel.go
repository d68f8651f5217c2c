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
	q       *Protocol
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
	w := c.q.cfg.Patience.Wait()
	defer w.Over()
	for {
		from = c.q.time.Now()
		err = c.q.store.Pause(ctx, from.Add(pauseTerm))
		if err == nil || !first || ctx.Err() != nil || !c.q.cfg.Patience.Passing(err) {
			return from, err
		}
		if err := w.Again(ctx, err); err != nil {
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

// cancel withdraws a page. Where an outage of the broker outlasted the pause, it
// pauses deliveries again and takes the page from the start.
func (c *canceller) cancel(ctx context.Context, page []*Pending) error {
	for {
		err := c.cancelPage(ctx, page)
		over := errors.Is(err, errPauseOver) || c.q.cfg.Patience.Passing(err)
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
	ctx, cancel := c.q.time.WithDeadline(ctx, c.paused.Add(pauseTerm-2*answerTimeout))
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
	s := c.sort(page, last)
	var withdrawn atomic.Int64
	err = c.q.time.Each(len(s.todo), cancelAtOnce, func(i int) error {
		if err := c.write(ctx, s.todo[i].p, s.todo[i].last); err != nil {
			return fmt.Errorf("order %s: %w", s.todo[i].p.OrderNo, err)
		}
		withdrawn.Add(1)
		return nil
	})
	if err != nil && c.q.patient() && ctx.Err() != nil {
		return err // the page is taken again
	}
	c.counts.Withdrawn += len(s.before) + int(withdrawn.Load())
	c.counts.Started += s.started
	c.gone = append(c.gone, s.before...)
	for _, w := range s.todo {
		c.gone = append(c.gone, w.p.Seq)
	}
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

// sorted is a page of pending intents, by what a cancellation does with them.
type sorted struct {
	todo    []withdrawal
	before  []uint64 // withdrawn by this run already, when it took the page before
	started int      // left to a worker
}

func (c *canceller) sort(page []*Pending, last []LastWord) (s sorted) {
	for i, p := range page {
		rec := last[i].Record
		switch {
		case rec.Settles(p.ID) && c.ours(rec):
			s.before = append(s.before, p.Seq)
		case rec.Settles(p.ID): // its acknowledgement is on its way
		case p.Seq <= c.reached, last[i].Unreadable != nil: // a worker's, or a newer version's to say
			s.started++
		default:
			s.todo = append(s.todo, withdrawal{p, last[i].Entry})
		}
	}
	return s
}

// ours: this run wrote the outcome, and did not come to count it.
func (c *canceller) ours(r *order.Record) bool {
	return c.q.patient() && r.By == c.by && r.Reason == withdrawnReason && !r.SettledAt.Before(c.began)
}

const withdrawnReason = "withdrawn before any attempt"

// WouldCancel counts what Cancel would withdraw now, and changes nothing: no
// delivery is paused, so that more may have been started by the time of Cancel.
func (q *Protocol) WouldCancel(ctx context.Context, each func(visit func([]*Pending) error) error) (Cancelled, error) {
	c := &canceller{q: q}
	var err error
	if c.reached, err = c.delivered(ctx); err != nil {
		return c.counts, err
	}
	err = each(func(page []*Pending) error {
		last, err := q.LastWords(ctx, numbersOf(page))
		if err == nil {
			s := c.sort(page, last)
			c.counts.Withdrawn += len(s.todo)
			c.counts.Started += s.started
		}
		return err
	})
	return c.counts, err
}

func (c *canceller) write(ctx context.Context, p *Pending, last Entry) error {
	now := c.q.time.Now().UTC()
	rec := order.Record{OrderNo: p.OrderNo, Reason: withdrawnReason, By: c.by, SettledAt: now,
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
