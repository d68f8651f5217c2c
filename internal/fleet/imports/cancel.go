package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Cancelled says what became of the orders that a cancellation covers.
type Cancelled struct {
	// Withdrawn counts those whose outcome is cancelled now.
	Withdrawn int `json:"cancelled"`
	// Started counts those that are left to their workers, because an attempt may have
	// created them, and those that ended otherwise meanwhile.
	Started int `json:"started"`
	// Open counts those that nobody has come to yet. A worker settles them as soon as it is
	// given one; it does not post them.
	Open int `json:"open"`
	// Unaware names workers that are present and had not taken notice when the command
	// ended. They may still post some.
	Unaware []string `json:"unaware,omitempty"`
	// NoWorker says that no worker was present.
	NoWorker bool `json:"no_worker,omitempty"`
}

// Left says what is left to know about a cancellation that has ended; "" if every order
// that it covers is withdrawn.
func (c Cancelled) Left() string {
	switch {
	case c.NoWorker && c.Open > 0:
		return "no worker runs; the next one settles what is open, and posts none of it"
	case len(c.Unaware) > 0:
		return strings.Join(c.Unaware, ", ") + " did not take notice and may still post some; see whether it runs"
	case c.Open > 0:
		return "the workers know of it and post none of what is open; they settle each order when they come to it. It waits for its next attempt, or another submission of its order_no is in the queue, or the fleet is held"
	case c.Started > 0:
		return "some orders had been started; see their outcomes"
	default:
		return ""
	}
}

// Counts is what the journal keeps of it.
func (c Cancelled) Counts() map[string]int {
	return map[string]int{"cancelled": c.Withdrawn, "started": c.Started, "open": c.Open, "unaware": len(c.Unaware)}
}

// ErrNotAwaited means that a command was cut off after the mark was stored. The
// cancellation stands; the command did not see what became of what it covers.
var ErrNotAwaited = errors.New("the cancellation stands, but its end was not waited for; see the outcomes")

// CancelBatch withdraws an import by a mark (settle.Cancellation), and waits until what is
// covered has its outcome, or nothing changes any more. It notes first that the import was
// cancelled, so that a run that is still under way stops; one that is over, with nothing left to
// withdraw, is not called cancelled afterwards. Nothing that is stored after it
// began is covered: a run of the import that stops covers what it stored meanwhile by a
// CancelBatch of its own.
//
// The mark stands as soon as it is stored, also if CancelBatch is cut off then
// (ErrNotAwaited).
func CancelBatch(ctx context.Context, q *queue.Queue, batch, by string) (Cancelled, error) {
	over, err := isOver(ctx, q, batch)
	if err == nil && !over {
		err = mark(ctx, q, batch, time.Now().UTC())
	}
	if err != nil {
		return Cancelled{}, err
	}
	c, err := cancellationOf(ctx, q, batch)
	if err != nil {
		return Cancelled{}, err
	}
	out, err := c.begin(ctx, by)
	if err == nil && out.Open == 0 {
		_, err = ResumeImport(ctx, q, batch) // nothing is left that a pause could hold
	}
	return out, err
}

// isOver reports whether an import was stored to its end, and no order of it is left to
// withdraw.
func isOver(ctx context.Context, q *queue.Queue, batch string) (bool, error) {
	i, err := ReadImport(ctx, q, batch)
	if err != nil || i == nil || !i.Complete() || i.Storing {
		return false, err
	}
	would, err := WouldCancelBatch(ctx, q, batch)
	return err == nil && would.Withdrawn+would.Started == 0, err
}

// mark notes that an import was cancelled, unless that is noted already.
func mark(ctx context.Context, q *queue.Queue, batch string, at time.Time) error {
	for {
		i, err := ReadImport(ctx, q, batch)
		if err != nil || i == nil || !i.CancelledAt.IsZero() {
			return err
		}
		i.CancelledAt = at
		if err := SaveImport(ctx, q, i); err != ErrImportChanged {
			return err
		}
	}
}

// CancelOrder is CancelBatch for one order_no.
func CancelOrder(ctx context.Context, q *queue.Queue, orderNo, by string) (Cancelled, error) {
	c, err := cancellationOfOrder(ctx, q, orderNo)
	if err != nil {
		return Cancelled{}, err
	}
	return c.begin(ctx, by)
}

// WouldCancelBatch counts what CancelBatch would find now, and changes nothing. What it
// counts as Withdrawn may be at the API already.
func WouldCancelBatch(ctx context.Context, q *queue.Queue, batch string) (Cancelled, error) {
	c, err := cancellationOf(ctx, q, batch)
	if err != nil {
		return Cancelled{}, err
	}
	return c.preview(ctx)
}

// WouldCancelOrder is WouldCancelBatch for one order_no.
func WouldCancelOrder(ctx context.Context, q *queue.Queue, orderNo string) (Cancelled, error) {
	c, err := cancellationOfOrder(ctx, q, orderNo)
	if err != nil {
		return Cancelled{}, err
	}
	return c.preview(ctx)
}

// cancellation is one run of a command that cancels.
type cancellation struct {
	q    *queue.Queue
	mark settle.Cancellation
	// pending passes what is in the queue of the import or order to visit.
	pending func(ctx context.Context, visit func([]*settle.Pending) error) error
	after   uint64    // records up to here are counted
	ended   int       // orders that ended otherwise since the command began
	found   Cancelled // so far
	// patience is how long nothing must change until the command does not wait any longer.
	patience time.Duration
}

// newCancellation covers what is stored now.
func newCancellation(ctx context.Context, q *queue.Queue) (*cancellation, error) {
	waiting, err := q.Waiting.End(ctx)
	if err != nil {
		return nil, err
	}
	queued, err := q.Intents().State(ctx) // last: what is moved meanwhile is known by its place in the waiting room
	if err != nil {
		return nil, err
	}
	return &cancellation{q: q, mark: settle.Cancellation{Queued: queued.End(), Waiting: waiting}, patience: stalled}, nil
}

func cancellationOf(ctx context.Context, q *queue.Queue, batch string) (*cancellation, error) {
	c, err := newCancellation(ctx, q)
	if err != nil {
		return nil, err
	}
	if c.mark.Import = ImportToken(batch); c.mark.Import == settle.NoImport {
		batch, c.mark.Queued = "", settle.StreamSeq{} // what waits, and no order that a producer put into the queue itself
	}
	c.pending = func(ctx context.Context, visit func([]*settle.Pending) error) error {
		return queue.EachPending(ctx, q, batch, visit)
	}
	return c, nil
}

func cancellationOfOrder(ctx context.Context, q *queue.Queue, orderNo string) (*cancellation, error) {
	c, err := newCancellation(ctx, q)
	if err != nil {
		return nil, err
	}
	c.mark.OrderNo = orderNo
	err = WaitingOfOrder(ctx, q, orderNo)(func(page []*settle.Message) error {
		for _, m := range page {
			c.mark.Found = append(c.mark.Found, m.Seq)
		}
		return nil
	})
	c.pending = func(ctx context.Context, visit func([]*settle.Pending) error) error {
		m, err := q.Store().Intent(ctx, orderNo)
		if err != nil || m == nil {
			return err
		}
		return visit([]*settle.Pending{settle.ReadPending(orderNo, m)})
	}
	return c, err
}

const (
	// firstLook and longestLook bound the time between two looks at what a cancellation
	// covers.
	firstLook   = 50 * time.Millisecond
	longestLook = 2 * time.Second
	// stalled is the patience of a command.
	stalled = 10 * time.Second
)

// begin stores the mark and follows what becomes of what it covers.
func (c *cancellation) begin(ctx context.Context, by string) (Cancelled, error) {
	var err error
	if c.after, err = queue.LastResult(ctx, c.q); err != nil {
		return c.found, err
	}
	if covers, err := c.preview(ctx); err != nil || covers.Withdrawn+covers.Started == 0 {
		return Cancelled{}, err
	}
	c.mark.By, c.mark.At = by, time.Now().UTC()
	control := fleet.New(c.q)
	stored, err := control.ChangeCancellations(ctx, func(marks []settle.Cancellation) ([]settle.Cancellation, bool) {
		return append(slices.Clone(marks), c.mark), false
	})
	if err != nil {
		return c.found, err
	}
	if err := c.follow(ctx, control, stored.Version); err != nil {
		return c.found, fmt.Errorf("%w (%w)", ErrNotAwaited, err)
	}
	return c.found, nil
}

// follow waits until what the mark covers has its outcome and every worker knows the mark, or
// nothing changes any more.
func (c *cancellation) follow(ctx context.Context, control *fleet.Control, version int64) error {
	changed := time.Now()
	for wait := firstLook; ; wait = min(2*wait, longestLook) {
		view, err := control.Look(ctx)
		if err != nil {
			return err
		}
		before := c.found
		if err := c.look(ctx); err != nil {
			return err
		}
		c.found.Unaware, c.found.NoWorker = view.Unaware(version), len(view.Present()) == 0
		if c.found.Withdrawn != before.Withdrawn || c.found.Started != before.Started || c.found.Open != before.Open {
			changed, wait = time.Now(), firstLook
		}
		switch {
		case c.found.Open == 0 && len(c.found.Unaware) == 0, c.found.NoWorker, time.Since(changed) > c.patience:
			return nil
		}
		if err := settle.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// look counts what became of what the mark covers, and what is left.
func (c *cancellation) look(ctx context.Context) error {
	// What is left first: what is settled meanwhile is among the records then.
	open, started, err := c.left(ctx)
	if err != nil {
		return err
	}
	c.after, err = queue.RecordsSince(ctx, c.q, c.after, func(r *order.Record) error {
		switch {
		case !c.mark.About(r):
		case r.Outcome() == order.OutcomeCancelled:
			c.found.Withdrawn++
		case r.Outcome() != order.OutcomeNone && c.mark.Import != settle.NoImport: // else it may never have waited
			c.ended++
		}
		return nil
	})
	c.found.Open, c.found.Started = open, c.ended+started
	return err
}

// preview counts what is covered now.
func (c *cancellation) preview(ctx context.Context) (Cancelled, error) {
	open, started, err := c.left(ctx)
	return Cancelled{Withdrawn: open, Started: started}, err
}

// left counts what is covered and has no outcome: what is in doubt, and the rest.
func (c *cancellation) left(ctx context.Context) (open, inDoubt int, err error) {
	if open, err = waitingCovered(ctx, c.q, &c.mark); err != nil {
		return 0, 0, err
	}
	queued, err := c.q.Intents().State(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = c.pending(ctx, func(page []*settle.Pending) error {
		page = slices.DeleteFunc(page, func(p *settle.Pending) bool {
			return !c.mark.Covers(ImportToken(p.Batch), p.OrderNo, settle.StreamSeq{Seq: p.Seq, Birth: queued.Birth}, p.WaitedAt)
		})
		numbers := make([]string, len(page))
		for i, p := range page {
			numbers[i] = p.OrderNo
		}
		words, err := c.q.Ledger.LastWords(ctx, numbers)
		if err != nil {
			return err
		}
		for i, p := range page {
			switch r := words[i].Record; {
			case words[i].Unreadable != nil, r != nil && r.Unsure && !r.Settles(p.ID):
				inDoubt++
			case !r.Settles(p.ID):
				open++
			}
		}
		return nil
	})
	return open, inDoubt, err
}

// waitingCovered counts what waits and is covered. The stream's leader says whether any
// does; how many may be a little too high.
func waitingCovered(ctx context.Context, q *queue.Queue, m *settle.Cancellation) (n int, err error) {
	if end, err := q.Waiting.End(ctx); err != nil || end.Birth != m.Waiting.Birth {
		return 0, err
	}
	if m.OrderNo == "" {
		left, err := q.Waiting.StillWaits(ctx, m.Import, m.Waiting.Seq)
		if err != nil || !left {
			return 0, err
		}
		some, err := q.Waiting.Of(ctx, m.Import)
		return max(int(some), 1), err
	}
	for _, seq := range m.Found {
		waits, err := q.Store().WaitingAt(ctx, seq)
		if err != nil {
			return n, err
		}
		if waits != nil {
			n++
		}
	}
	return n, nil
}

// RetireCancellations removes the marks that cover nothing any more. It is the feeder's: no
// move of it may be under way.
func RetireCancellations(ctx context.Context, q *queue.Queue) error {
	if len(q.Ledger.Cancellations().Marks) == 0 {
		return nil
	}
	var failed error
	now, err := fleet.New(q).ChangeCancellations(ctx, func(marks []settle.Cancellation) (next []settle.Cancellation, same bool) {
		same = true
		for _, m := range marks {
			keep, changed, err := retire(ctx, q, m)
			if failed = err; err != nil {
				return nil, true
			}
			if same = same && !changed; keep != nil {
				next = append(next, *keep)
			}
		}
		return next, same
	})
	if err == nil && failed == nil {
		q.Ledger.SetCancellations(now)
	}
	if failed != nil {
		return failed
	}
	return err
}

// retire returns what becomes of a mark; nil = it covers nothing any more. First nothing of
// it waits. Then what was moved until that moment has left the log.
func retire(ctx context.Context, q *queue.Queue, m settle.Cancellation) (keep *settle.Cancellation, changed bool, err error) {
	waits := 0
	if m.Moved.Birth == 0 {
		if waits, err = waitingCovered(ctx, q, &m); err != nil || waits > 0 {
			return &m, false, err
		}
	}
	log, err := q.Intents().State(ctx)
	switch {
	case err != nil:
		return &m, false, err
	case m.Moved.Birth == 0:
		m.Moved = log.End()
		return &m, true, nil
	case log.Messages == 0 || log.Birth != m.Moved.Birth || log.FirstSeq > m.Moved.Seq:
		return nil, true, nil
	default:
		return &m, false, nil
	}
}

// WaitingOfOrder lists the waiting intents of one order_no. It reads everything that
// waits, because subjects of the waiting room do not name orders.
func WaitingOfOrder(ctx context.Context, q *queue.Queue, orderNo string) func(visit func([]*settle.Message) error) error {
	return func(visit func([]*settle.Message) error) error {
		return q.Waiting.Each(ctx, "", queue.ToTheEnd, func(page []*settle.Message) error {
			mine := slices.DeleteFunc(page, func(m *settle.Message) bool { return settle.WaitingOrderNo(m) != orderNo })
			if len(mine) == 0 {
				return nil
			}
			return visit(mine)
		})
	}
}
