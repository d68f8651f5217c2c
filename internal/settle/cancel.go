package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Blocked counts the intents that stay in the waiting room, because another
	// intent of their order_no is pending.
	Blocked int `json:"blocked,omitempty"`
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
// pause ends by itself. Cancel leaves alone the pause of another cancellation.
//
// If deliveries went on nevertheless, a worker may have posted an intent before
// it was withdrawn. So Cancel looks after each page, and after a pause that ended
// before its time, how far deliveries came. It changes the outcome of what was
// delivered to unknown, and returns an error.
//
// Deliveries go on only after every write was confirmed: one that is stored later
// would be about an order that a worker posts. So Cancel repeats unconfirmed
// writes before it ends, also after ctx ended. If that fails, it does not end the
// pause early.
//
// Cancel writes the outcome first, by R1, and deletes the intent afterwards.
// After a crash between the two, the next delivery finds the outcome.
func (q *Protocol) Cancel(ctx context.Context, by string, each func(visit func([]*Pending) error) error) (Cancelled, error) {
	c := &canceller{q: q, by: by}
	defer c.resume()
	if err := c.pause(ctx); err != nil {
		return c.counts, err
	}
	err := each(func(page []*Pending) error { return c.cancel(ctx, page) })
	err = errors.Join(err, c.conclude(ctx))
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
	paused        time.Time   // when deliveries were paused last
	ends          []time.Time // of the pauses that this run asked for
	others        time.Time   // the end of another program's pause
	resumed       bool
	lastDelivered uint64 // the highest sequence that a worker was ever given
	counts        Cancelled
	unproven      []*withdrawal // what was withdrawn, or is about to be, since deliveries were looked at
	toDelete      []uint64      // sequences of the withdrawn intents
}

// pause stops deliveries. Before a pause ends, the next call extends it. The first
// call, and the first one after a pause that ended, reads how far deliveries came.
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
		return nil
	}
	return c.prove(ctx)
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
		err = c.pauseUntil(ctx, from.Add(pauseTerm))
		if err == nil || !first || ctx.Err() != nil || !c.q.cfg.Patience.Transient(err) {
			return from, err
		}
		if err := w.Backoff(ctx, err); err != nil {
			return from, err
		}
	}
}

// pauseUntil pauses deliveries until then, or longer if another program did.
func (c *canceller) pauseUntil(ctx context.Context, end time.Time) error {
	now, err := c.q.store.PausedUntil(ctx)
	if err != nil {
		return err
	}
	if !c.askedFor(now) {
		c.others = now
	}
	if !end.After(c.others) {
		end = c.others.Add(time.Millisecond)
	}
	c.ends = append(c.ends, end)
	return c.q.store.Pause(ctx, end)
}

// askedFor reports whether this run asked for the pause that ends then.
func (c *canceller) askedFor(end time.Time) bool { return slices.ContainsFunc(c.ends, end.Equal) }

// delivered returns the highest sequence that a worker was ever given.
func (c *canceller) delivered(ctx context.Context) (uint64, error) {
	remembered, err := c.q.store.Delivered(ctx)
	if err != nil {
		return 0, err
	}
	marked, err := newHighWater(c.q).high(ctx, c.q.link())
	return max(remembered, marked), err
}

// concludeAgain is the time between two tries of conclude.
const concludeAgain = 250 * time.Millisecond

// conclude makes sure that deliveries may go on. After a failure it has a little
// time, also if ctx has ended, and uses all of it: if this program was held up,
// nobody else finds out that a worker may have posted what it withdrew late.
func (c *canceller) conclude(ctx context.Context) error {
	if len(c.unproven) == 0 {
		return nil
	}
	ctx, cancel := c.q.time.WithDeadline(context.WithoutCancel(ctx), c.q.time.Now().Add(2*RequestTimeout))
	defer cancel()
	for {
		err := c.prove(ctx)
		if len(c.unproven) == 0 || c.q.time.Sleep(ctx, concludeAgain) != nil {
			return err
		}
	}
}

// prove makes sure of what was withdrawn so far.
func (c *canceller) prove(ctx context.Context) error {
	if err := c.finish(ctx); err != nil {
		return err
	}
	return c.look(ctx)
}

// finish repeats the writes that were not confirmed. After that, an earlier one
// that is still on its way is stale. What workers were given by now is written as
// unknown at once: this program may not come to look again.
func (c *canceller) finish(ctx context.Context) error {
	var upTo uint64
	var unread error
	if slices.ContainsFunc(c.unproven, (*withdrawal).unconfirmed) {
		upTo, unread = c.delivered(ctx)
	}
	return c.q.time.Each(len(c.unproven), cancelAtOnce, func(i int) error {
		w, err := c.unproven[i], unread
		if w.confirmed {
			return nil
		}
		if err == nil && w.p.Seq <= upTo {
			err = c.doubtOne(ctx, w)
		} else if err == nil {
			if w.last, err = c.q.Lookup(ctx, w.p.OrderNo); err == nil {
				err = c.write(ctx, w)
			}
		}
		if err != nil {
			err = fmt.Errorf("order %s: its cancellation is not confirmed, and a worker may post the order before the broker stores it; look at the order once the broker answers: %w", w.p.OrderNo, err)
		}
		return err
	})
}

// look reads how far deliveries came. What no worker was given is withdrawn for
// good: whoever is given it now finds the outcome. So is what was withdrawn during a
// pause that has ended since. look changes the outcomes of the rest to unknown, and
// returns an error then. All writes are confirmed.
func (c *canceller) look(ctx context.Context) error {
	upTo, err := c.delivered(ctx)
	if err == nil && upTo > c.lastDelivered {
		err = c.doubt(ctx, upTo)
	}
	if err != nil {
		return err
	}
	var doubted []string
	for _, w := range c.unproven {
		c.toDelete = append(c.toDelete, w.p.Seq)
		if w.doubted {
			doubted = append(doubted, w.p.OrderNo)
		} else {
			c.counts.Withdrawn++
		}
	}
	c.lastDelivered, c.unproven = max(c.lastDelivered, upTo), nil
	if len(doubted) > 0 {
		return givenOut(doubted)
	}
	return nil
}

// givenOut returns the error that says that workers were given orders before they were
// withdrawn. It names ten of them.
func givenOut(orders []string) error {
	some := orders[:min(len(orders), 10)]
	text := strings.Join(some, ", ")
	if more := len(orders) - len(some); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return errors.New("the broker delivered intents while they were withdrawn (this program was held up for longer than deliveries were paused, or the workers' consumer was changed): workers may have posted " + text +
		"; these are unknown now: look them up at the API and resolve them, then run the cancellation again for the rest")
}

// doubt changes the outcome of the withdrawn intents up to this sequence to
// unknown. An acceptance stays. Deliveries during a pause that should still go on
// prove that it was broken.
func (c *canceller) doubt(ctx context.Context, upTo uint64) error {
	now := c.q.time.Now()
	return c.q.time.Each(len(c.unproven), cancelAtOnce, func(i int) error {
		w := c.unproven[i]
		if w.p.Seq > upTo || !w.paused.IsZero() && !now.Before(w.paused) {
			return nil
		}
		if err := c.doubtOne(ctx, w); err != nil {
			return fmt.Errorf("order %s is cancelled in the results and may have been posted: %w", w.p.OrderNo, err)
		}
		return nil
	})
}

// doubtOne records a withdrawn intent as unknown: over its cancellation, or in place of
// one that was not confirmed. The outcome of a worker stays.
func (c *canceller) doubtOne(ctx context.Context, w *withdrawal) error {
	var doubted bool
	_, err := c.q.updateRecord(ctx, FileToken(order.Token(w.p.OrderNo)), func(stored Entry) (*order.Record, error) {
		doubted = false
		next := stored.Record
		if next.Outcome() != order.OutcomeCancelled || next.IntentID != w.p.ID {
			if w.confirmed || next.Settles(w.p.ID) {
				return nil, nil
			}
			if next = order.Merge(next, c.record(w)); next == nil || next.Outcome() != order.OutcomeCancelled && next.Outcome() != order.OutcomeUnknown {
				return next, nil
			}
		}
		doubted = true
		now, doubtful := c.q.time.Now(), *next
		doubtful.TakeBack()
		doubtful.SettledAt = now.UTC()
		doubtful.Intervene(Person{Name: c.by}.did("took back the cancellation", now))
		return &doubtful, nil
	})
	w.doubted, w.confirmed = w.doubted || doubted, w.confirmed || err == nil
	return err
}

// resume ends the pause by setting its end to the near future. That wakes the
// pulls that wait, and resuming the consumer does not. A pause that another
// program began goes on: that of a cancellation which began later, and what is
// left of one that began earlier. Nobody knows whether that one has ended.
func (c *canceller) resume() {
	if c.resumed || c.paused.IsZero() || slices.ContainsFunc(c.unproven, (*withdrawal).unconfirmed) {
		return
	}
	c.resumed = true
	ctx, cancel := context.WithTimeout(context.Background(), RequestTimeout)
	defer cancel()
	end, err := c.q.store.PausedUntil(ctx)
	if err == nil && !c.askedFor(end) {
		return
	}
	if end = c.q.time.Now().Add(50 * time.Millisecond); end.Before(c.others) {
		end = c.others
	}
	if err == nil {
		err = c.q.store.Pause(ctx, end)
	}
	if err != nil {
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
	if err := c.withdraw(ctx, page); err != nil {
		return err
	}
	if len(c.unproven) == 0 {
		return nil
	}
	return c.look(ctx)
}

// withdraw writes the outcomes of a page. A write that waits for its broker must not
// outlive the pause.
func (c *canceller) withdraw(ctx context.Context, page []*Pending) error {
	deadline := c.paused.Add(pauseTerm - 2*RequestTimeout)
	ctx, cancel := c.q.time.WithDeadline(ctx, deadline)
	defer cancel()
	last, err := c.q.LastWords(ctx, numbersOf(page))
	if err == nil {
		todo, started := c.classify(page, last)
		c.unproven = append(c.unproven, todo...)
		err = c.q.time.Each(len(todo), cancelAtOnce, func(i int) error {
			w := todo[i]
			if err := c.write(ctx, w); err != nil {
				return fmt.Errorf("order %s: %w", w.p.OrderNo, err)
			}
			if c.q.time.Now().Before(deadline) {
				w.paused = c.paused.Add(pauseTerm)
			}
			return nil
		})
		if err == nil {
			c.counts.Started += started
		}
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errPauseOver, err)
	}
	return err
}

// withdrawal is an intent to withdraw.
type withdrawal struct {
	p         *Pending
	last      Entry // the last word on its order_no
	confirmed bool  // its outcome is stored
	// paused is the end of the pause during which the outcome was stored; zero = it
	// may have been stored later.
	paused  time.Time
	doubted bool // its outcome is unknown, because a worker was given it before
}

func (w *withdrawal) unconfirmed() bool { return !w.confirmed }

// numbersOf returns the order numbers of a page.
func numbersOf(page []*Pending) []string {
	numbers := make([]string, len(page))
	for i, p := range page {
		numbers[i] = p.OrderNo
	}
	return numbers
}

// classify returns what to withdraw of a page by the last words on its orders, and
// counts what is left to a worker.
func (c *canceller) classify(page []*Pending, last []LastWord) (todo []*withdrawal, started int) {
	for i, p := range page {
		switch {
		case last[i].Record.Settles(p.ID): // this run withdrew it before, or a worker is about to acknowledge it
		case p.Seq <= c.lastDelivered, last[i].Unreadable != nil: // a worker or a newer version decides
			started++
		default:
			todo = append(todo, &withdrawal{p: p, last: last[i].Entry})
		}
	}
	return todo, started
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
			todo, started := c.classify(page, last)
			c.counts.Withdrawn += len(todo)
			c.counts.Started += started
		}
		return err
	})
	return c.counts, err
}

// write writes the outcome cancelled for one intent.
func (c *canceller) write(ctx context.Context, w *withdrawal) error {
	_, err := c.q.writeRecord(ctx, FileToken(order.Token(w.p.OrderNo)), w.last, *c.record(w))
	w.confirmed = err == nil
	return err
}

// record returns the record of a withdrawn intent.
func (c *canceller) record(w *withdrawal) *order.Record {
	p := w.p
	rec := &order.Record{OrderNo: p.OrderNo, Reason: withdrawnReason, By: c.by, SettledAt: c.q.time.Now().UTC(),
		EnqueuedAt: p.StoredAt.UTC(), Batch: p.Batch, Source: p.Source, IntentID: p.ID, BodyHash: p.BodyHash, Waited: p.Waited}
	rec.SetOutcome(order.OutcomeCancelled)
	return rec
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
