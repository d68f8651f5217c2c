package importer

import (
	"context"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// Progress is the progress of an import's orders.
type Progress struct {
	// Total is the number of orders to wait for. Settled is how many of them have an
	// outcome.
	Total, Settled int
	Outcomes       map[order.Outcome]int
	// Workers is the number of present workers. NothingSent is a sentence if none of them
	// sends (fleet.View).
	Workers     int
	NothingSent string
	Elapsed     time.Duration
	// Waiting is how many orders of the import wait for their turn or their time.
	// Paused says who keeps them there; "" = nobody.
	Waiting uint64
	Paused  string
	// Ended says that the queue holds no intent of the import any more.
	Ended bool

	// The settled orders and the elapsed time after the first look.
	earlier int
	begun   time.Duration
}

// Rate returns the number of orders settled per second since the first look.
func (p *Progress) Rate() float64 {
	if p.Elapsed <= p.begun {
		return 0
	}
	return max(0, float64(p.Settled-p.earlier)/(p.Elapsed-p.begun).Seconds())
}

// Left estimates the remaining time. It returns 0 if it cannot.
func (p *Progress) Left() time.Duration {
	if r := p.Rate(); r > 0 {
		return time.Duration(float64(p.Total-p.Settled) / r * float64(time.Second))
	}
	return 0
}

// follower counts the outcomes of an import's rows. Each row counts once, whatever ID
// its order was last submitted under.
type follower struct {
	batch   string
	awaited func(row int) bool // nil = every row
	count   int                // number of rows
	rows    []order.Outcome    // by row number, then replayed orders with unknown rows
	byNo    map[string]int     // order_no to index in rows, for orders that may be replayed
	created set                // the lines of the file whose orders were accepted
	p       Progress
	last    uint64
	counted time.Time // when what waits was counted last
}

func newFollower(batch string, rows, total int, after uint64, awaited func(int) bool) *follower {
	return &follower{batch: batch, awaited: awaited, count: rows, rows: make([]order.Outcome, rows+1), byNo: make(map[string]int), last: after,
		p: Progress{Total: total, Outcomes: make(map[order.Outcome]int)}}
}

func (f *follower) see(r *order.Record) error {
	for i := range r.Conflicts {
		if c := &r.Conflicts[i]; r.ConflictOf(c.IntentID) != nil {
			f.note(c.IntentID, c.Batch, c.Source, "", order.OutcomeRejected)
		} else if r.Outcome() != order.OutcomeNone { // it shares the doubt
			f.note(c.IntentID, c.Batch, c.Source, "", r.Outcome())
		}
	}
	about := r.IntentID
	if r.ConflictOf(about) != nil {
		about = "" // the body is that of an earlier intent
	}
	f.note(about, r.Batch, r.Source, r.OrderNo, r.Outcome())
	return nil
}

// note records the outcome of an intent.
func (f *follower) note(id, batch, source, orderNo string, outcome order.Outcome) {
	n, ok := f.row(id, batch, source, orderNo)
	if !ok {
		return
	}
	had := f.rows[n]
	if had != order.OutcomeNone { // the acceptance came late, or the order is being sent again
		f.p.Outcomes[had]--
		f.p.Settled--
	}
	if f.rows[n] = outcome; outcome != order.OutcomeNone {
		f.p.Outcomes[outcome]++
		f.p.Settled++
	}
	if _, own := status.RowOf(id, f.batch); own && outcome == order.OutcomeAccepted {
		if line := lineOf(source); line <= maxLines*(f.count+1) {
			f.created.add(line)
		}
		delete(f.byNo, orderNo)
	} else if orderNo != "" {
		f.byNo[orderNo] = n
	}
}

// maxLines bounds the lines of the average row that a follower remembers: anybody may
// write a source.
const maxLines = 100

// lineOf returns the line of the file from an intent's source; 0 if it names none.
func lineOf(source string) int {
	n, err := strconv.Atoi(source[strings.LastIndexByte(source, ':')+1:])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// row returns the index in rows of an intent. It finds a replay by the order_no that
// failed before. If somebody enqueues an accepted order again, the record names the
// new intent, but the acceptance keeps the batch and source of ours: that row is
// counted already.
func (f *follower) row(id, batch, source, orderNo string) (int, bool) {
	if n, ok := status.RowOf(id, f.batch); ok {
		return n, n <= f.count && (f.awaited == nil || f.awaited(n))
	}
	if batch != f.batch || orderNo == "" {
		return 0, false
	}
	n, ok := f.byNo[orderNo]
	if line := lineOf(source); !ok && line > 0 && f.created.has(line) {
		return 0, false
	}
	if !ok && f.awaited == nil { // replayed before the first look
		n, ok = len(f.rows), true
		f.rows = append(f.rows, order.OutcomeNone)
	}
	return n, ok
}

const (
	// lookEvery is the interval between two looks at the results.
	lookEvery = 250 * time.Millisecond
	// idleLooks is the number of looks without news after which follow searches the
	// queue for the import's intents. Another import may have replaced some.
	idleLooks = 40
	// replayLooks replaces idleLooks once every row has an outcome. Replayed orders
	// may be in the queue again.
	replayLooks = 8
)

// follow reads the results until every awaited row is settled or the queue holds no
// intent of the import. It calls show after each look.
func (f *follower) follow(ctx context.Context, q *queue.Queue, show func(Progress)) error {
	begun, idle, first, over := time.Now(), 0, true, false
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		before := f.p.Settled
		counts, err := q.Census.Count(ctx) // count before reading the results: an intent that has left the queue has a result
		if err != nil {
			return err
		}
		if f.last, err = queue.RecordsSince(ctx, q, f.last, f.see); err != nil {
			return err
		}
		f.p.Elapsed = time.Since(begun)
		if first {
			f.p.earlier, f.p.begun, first = f.p.Settled, f.p.Elapsed, false
		}
		f.p.Ended = counts.Pending == 0 && counts.Waiting == 0
		if err := f.waiting(ctx, q, counts); err != nil {
			return err
		}
		patience := idleLooks
		if idle++; f.p.Settled != before {
			idle = 0
		}
		settled := f.p.Settled >= f.p.Total
		switch {
		case settled && !over:
			patience = 0
		case settled:
			patience = replayLooks
		}
		over = settled
		if idle >= patience && !f.p.Ended {
			idle = 0
			left, err := status.Unsettled(ctx, q, f.batch)
			if err != nil {
				return err
			}
			f.p.Ended = left == 0
		}
		if err := f.presence(ctx, q); err != nil {
			return err
		}
		show(f.p)
		if f.p.Ended {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitingEvery is the time between two counts of what waits.
const waitingEvery = time.Second

// waiting sets Waiting and Paused.
func (f *follower) waiting(ctx context.Context, q *queue.Queue, counts queue.Counts) error {
	if counts.Waiting == 0 {
		f.p.Waiting, f.p.Paused = 0, ""
		return nil
	}
	if time.Since(f.counted) < waitingEvery {
		return nil
	}
	f.counted = time.Now()
	var err error
	if f.p.Waiting, err = q.Waiting.Of(ctx, imports.ImportToken(f.batch)); err != nil {
		return err
	}
	hold, err := imports.HeldBy(ctx, q, f.batch)
	f.p.Paused = hold.By()
	return err
}

// presence sets Workers and NothingSent.
func (f *follower) presence(ctx context.Context, q *queue.Queue) error {
	view, err := fleet.New(q).Look(ctx)
	if err != nil {
		return err
	}
	f.p.Workers, f.p.NothingSent = len(view.Present()), view.NothingSent(time.Now())
	return nil
}

// Wait waits until every row of the import is settled. It calls show a few times a
// second. It returns the last progress, with the context's error if that ended first.
// The orders are processed either way.
func (p *Result) Wait(ctx context.Context, q *queue.Queue, show func(Progress)) (Progress, error) {
	f := newFollower(p.Batch, p.Rows, p.waits, p.after, p.awaited.has)
	err := f.follow(ctx, q, show)
	if err == nil && p.foreign > 0 {
		err = p.waitForOthers(ctx, q)
	}
	return f.p, err
}

// waitForOthers waits for the rows whose orders another import enqueued.
func (p *Result) waitForOthers(ctx context.Context, q *queue.Queue) error {
	tick := time.NewTicker(4 * lookEvery)
	defer tick.Stop()
	for {
		counts, err := q.Census.Count(ctx)
		if err != nil || counts.Pending == 0 {
			return err
		}
		left := 0
		if err := p.f.eachStatus(ctx, q, func(rows []Row, statuses []status.OrderStatus) error {
			for i := range statuses {
				if st := &statuses[i]; st.Pending != nil || st.Record != nil && st.Record.Outcome() == order.OutcomeNone && !st.Lost {
					left++
				}
			}
			return nil
		}); err != nil || left == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch follows an import that another run started.
func Watch(ctx context.Context, q *queue.Queue, imp *imports.Import, show func(Progress)) (Progress, error) {
	total := 0
	for fate, n := range imp.Counts {
		switch Fate(fate) {
		case Stored, Corrected, Retried, AlreadyKnown, AlreadyPending:
			total += n
		}
	}
	f := newFollower(imp.Batch, imp.Rows, total, imp.FirstResult, nil)
	err := f.follow(ctx, q, show)
	return f.p, err
}
