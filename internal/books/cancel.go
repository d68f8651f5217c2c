package books

import (
	"context"
	"errors"
	"slices"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// CancelBatch withdraws what was never delivered of an import. It notes that the
// import was cancelled, so that a run that is still under way stops. It withdraws
// what waits without pausing the fleet, and nothing that is stored after it began: a
// producer that goes on would keep it at work for ever. A run of the import that
// stops withdraws what it stored meanwhile by a CancelBatch of its own.
//
// If it is cut off, or if it counts blocked intents, the rest of what waits stays where
// it is, until CancelBatch is called again, or ResumeImport.
func CancelBatch(ctx context.Context, q *queue.Queue, batch, by string) (settle.Cancelled, error) {
	at := time.Now().UTC()
	if err := mark(ctx, q, batch, at); err != nil {
		return settle.Cancelled{}, err
	}
	holds := &holdings{q: q, by: by, held: make(map[string]*holding)}
	waiting, err := waitingNow(ctx, q, batch)
	if err != nil {
		return settle.Cancelled{}, err
	}
	c, err := cancel(ctx, holds, waiting, PendingOfBatch(ctx, q, batch))
	if errors.Is(err, ErrResumed) {
		return c, errors.Join(err, unmark(ctx, q, batch, at))
	}
	if err != nil || c.Blocked > 0 {
		return c, err // the holds stay: the rest must not be sent before somebody decides
	}
	_, err = release(ctx, q, batch) // nothing is left that a pause or an earlier cancellation could hold
	if err == nil {
		err = mark(ctx, q, batch, at) // somebody may have resumed it before there was a hold
	}
	return c, errors.Join(err, holds.end(ctx))
}

// mark notes that an import was cancelled, unless that is noted already.
func mark(ctx context.Context, q *queue.Queue, batch string, at time.Time) error {
	return changeImport(ctx, q, batch, func(i *Import) bool {
		if !i.CancelledAt.IsZero() {
			return false
		}
		i.CancelledAt = at
		return true
	})
}

// unmark takes a cancellation's mark back: its import goes on. The zero time means
// whichever cancellation's.
func unmark(ctx context.Context, q *queue.Queue, batch string, at time.Time) error {
	return changeImport(ctx, q, batch, func(i *Import) bool {
		if i.CancelledAt.IsZero() || !at.IsZero() && !i.CancelledAt.Equal(at) {
			return false
		}
		i.CancelledAt = time.Time{}
		return true
	})
}

// changeImport writes what change makes of an import, if it is remembered and change
// says that something changed.
func changeImport(ctx context.Context, q *queue.Queue, batch string, change func(*Import) bool) error {
	for {
		i, err := ReadImport(ctx, q, batch)
		if err != nil || i == nil || !change(i) {
			return err
		}
		if err := SaveImport(ctx, q, i); !errors.Is(err, ErrImportChanged) {
			return err
		}
	}
}

// CancelOrder withdraws the intents of one order_no. If it is killed, what waits of its
// import stays where it is, until CancelOrder is called again, or ResumeImport.
func CancelOrder(ctx context.Context, q *queue.Queue, orderNo, by string) (settle.Cancelled, error) {
	holds := &holdings{q: q, by: by, order: orderNo, held: make(map[string]*holding)}
	nothing := func() (bool, error) { return false, nil } // subjects do not name orders
	c, err := cancel(ctx, holds, waitingOf{WaitingOfOrder(ctx, q, orderNo), nothing}, PendingOfOrder(ctx, q, orderNo))
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settle.RequestTimeout)
	defer stop()
	ended := holds.end(ctx) // other orders of the import go on
	if err = errors.Join(err, ended); err != nil {
		return c, err
	}
	return c, endOfOrder(ctx, q, orderNo)
}

// WouldCancelBatch counts what CancelBatch would withdraw, and changes nothing.
func WouldCancelBatch(ctx context.Context, q *queue.Queue, batch string) (settle.Cancelled, error) {
	waiting, err := q.WaitingOf(ctx, ImportToken(batch))
	if err != nil {
		return settle.Cancelled{}, err
	}
	c, err := q.WouldCancel(ctx, PendingOfBatch(ctx, q, batch))
	c.Withdrawn += int(waiting)
	return c, err
}

// WouldCancelOrder counts what CancelOrder would withdraw, and changes nothing.
func WouldCancelOrder(ctx context.Context, q *queue.Queue, orderNo string) (settle.Cancelled, error) {
	n := 0
	if err := WaitingOfOrder(ctx, q, orderNo)(func(page []*settle.Message) error {
		n += len(page)
		return nil
	}); err != nil {
		return settle.Cancelled{}, err
	}
	c, err := q.WouldCancel(ctx, PendingOfOrder(ctx, q, orderNo))
	c.Withdrawn += n
	return c, err
}

type (
	eachWaiting = func(visit func([]*settle.Message) error) error
	eachPending = func(visit func([]*settle.Pending) error) error
)

// waitingOf is what waits and is to be withdrawn. A follower that lags may answer
// each. The stream's leader answers left: whether anything is left.
type waitingOf struct {
	each eachWaiting
	left func() (bool, error)
}

// waitingNow is what waits of an import at this moment. What is stored later is not.
func waitingNow(ctx context.Context, q *queue.Queue, batch string) (waitingOf, error) {
	last, err := q.LastWaiting(ctx)
	token := ImportToken(batch)
	return waitingOf{
		each: func(visit func([]*settle.Message) error) error { return q.EachWaiting(ctx, token, last, visit) },
		left: func() (bool, error) { return q.StillWaits(ctx, token, last) },
	}, err
}

// cancel withdraws what waits, and then what is in the queue. It pauses the
// deliveries of the queue only if there is something to withdraw from it.
func cancel(ctx context.Context, holds *holdings, waiting waitingOf, pending eachPending) (settle.Cancelled, error) {
	c, err := holds.withdraw(ctx, waiting)
	if err != nil {
		return c, err
	}
	if c.Withdrawn > 0 && c.Blocked == 0 {
		queued := false
		if err := pending(func([]*settle.Pending) error { queued = true; return nil }); err != nil || !queued {
			return c, err
		}
	}
	queued, err := holds.q.Cancel(ctx, holds.by, pending)
	c.Withdrawn, c.Started = c.Withdrawn+queued.Withdrawn, c.Started+queued.Started
	if err != nil || c.Blocked == 0 {
		return c, err
	}
	rest, err := holds.withdraw(ctx, waiting) // what blocked them may be withdrawn
	c.Withdrawn, c.Blocked = c.Withdrawn+rest.Withdrawn, rest.Blocked
	return c, err
}

// holdings are the imports from which one cancellation keeps the feeder.
type holdings struct {
	q  *queue.Queue
	by string
	// order is the order_no that is cancelled; "" = the import.
	order string
	held  map[string]*holding // by the import's token
}

// withdraw withdraws what waits. Of what it reads, the feeder may have moved some
// before it knew of the hold. Withdraw recognises that.
func (h *holdings) withdraw(ctx context.Context, waiting waitingOf) (c settle.Cancelled, err error) {
	for {
		some, err := h.withdrawOnce(ctx, waiting.each)
		c.Withdrawn, c.Blocked = c.Withdrawn+some.Withdrawn, some.Blocked
		if err != nil || c.Blocked > 0 {
			return c, err
		}
		if left, err := waiting.left(); err != nil || !left {
			return c, err
		}
		if err := pause(ctx, holdLook); err != nil {
			return c, err
		}
	}
}

func (h *holdings) withdrawOnce(ctx context.Context, waiting eachWaiting) (c settle.Cancelled, err error) {
	err = waiting(func(page []*settle.Message) error {
		for _, token := range importsOf(h.q, page) {
			if err := h.keep(ctx, token); err != nil {
				return err
			}
		}
		done, err := h.q.Withdraw(ctx, h.by, page)
		c.Withdrawn, c.Blocked = c.Withdrawn+done.Withdrawn, c.Blocked+done.Blocked
		return err
	})
	return c, err
}

// keep makes sure that the feeder moves nothing of an import.
func (h *holdings) keep(ctx context.Context, token string) (err error) {
	if held := h.held[token]; held != nil {
		_, err := held.look(ctx)
		return err
	}
	h.held[token], err = hold(ctx, h.q, token, h.by, h.order)
	return err
}

// end lets the feeder go on.
func (h *holdings) end(ctx context.Context) (err error) {
	for _, held := range h.held {
		err = errors.Join(err, held.end(ctx))
	}
	return err
}

// importsOf returns the tokens of a page's imports.
func importsOf(q *queue.Queue, page []*settle.Message) (tokens []string) {
	seen := make(map[string]bool)
	for _, m := range page {
		if token := q.WaitingImport(m); !seen[token] {
			seen[token], tokens = true, append(tokens, token)
		}
	}
	return tokens
}

// PendingOfBatch lists the stored intents of an import, for settle.Protocol's
// Cancel and WouldCancel.
func PendingOfBatch(ctx context.Context, q *queue.Queue, batch string) func(visit func([]*settle.Pending) error) error {
	return func(visit func([]*settle.Pending) error) error { return EachPending(ctx, q, batch, visit) }
}

// PendingOfOrder is PendingOfBatch for one order_no.
func PendingOfOrder(ctx context.Context, q *queue.Queue, orderNo string) func(visit func([]*settle.Pending) error) error {
	return func(visit func([]*settle.Pending) error) error {
		statuses, err := OrderStatuses(ctx, q, []string{orderNo})
		if err != nil || statuses[0].Pending == nil {
			return err
		}
		return visit([]*settle.Pending{statuses[0].Pending})
	}
}

// WaitingOfOrder lists the waiting intents of one order_no. It reads everything that
// waits, because subjects of the waiting room do not name orders.
func WaitingOfOrder(ctx context.Context, q *queue.Queue, orderNo string) func(visit func([]*settle.Message) error) error {
	return func(visit func([]*settle.Message) error) error {
		return q.EachWaiting(ctx, "", queue.ToTheEnd, func(page []*settle.Message) error {
			mine := slices.DeleteFunc(page, func(m *settle.Message) bool { return settle.WaitingOrderNo(m) != orderNo })
			if len(mine) == 0 {
				return nil
			}
			return visit(mine)
		})
	}
}
