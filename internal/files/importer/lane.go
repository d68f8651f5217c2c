package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// notBeforeColumn is the column with the time before which a row's order is not sent.
const notBeforeColumn = "_not_before"

// ErrUnknownLane means that no person gave the lane a weight.
var ErrUnknownLane = errors.New("unknown lane")

// chooseLane sets the lane of this run, and returns ErrUnknownLane for one that no person
// gave a weight.
func (p *publisher) chooseLane(ctx context.Context) error {
	if p.lane = cmp.Or(p.f.o.Lane, order.BulkLane); p.f.o.Direct {
		p.lane = ""
	}
	if p.lane == "" || p.lane == order.BulkLane {
		return nil
	}
	view, err := fleet.New(p.q).Read(ctx)
	if err != nil {
		return err
	}
	if _, known := view.Lanes[p.lane]; !known {
		lanes := append(slices.Sorted(maps.Keys(view.Lanes)), order.BulkLane)
		return fmt.Errorf("%w %q, there are: %s; orderpost lane %s 1 makes it", ErrUnknownLane, p.lane, strings.Join(lanes, ", "), p.lane)
	}
	return nil
}

// place sets where an intent waits. A time that is over means "now".
func (p *publisher) place(in *settle.Intent, row *Row) {
	in.Lane = p.lane
	if at := row.notBefore(p.f.o.NotBefore); at.After(time.Now()) {
		in.NotBefore = at
	}
}

// notBefore returns the row's own time, or else the import's.
func (r *Row) notBefore(common time.Time) time.Time {
	if r.NotBefore.IsZero() {
		return common
	}
	return r.NotBefore
}

// waitingRows returns the rows of an import whose intents wait.
func (f *File) waitingRows(ctx context.Context, q *queue.Queue) (rows set, err error) {
	err = queue.EachWaiting(ctx, q, f.Batch, func(page []*settle.Message) error {
		for _, m := range page {
			if n, ok := status.RowOf(m.Header.Get(settle.HeaderIntentID), f.Batch); ok {
				rows.add(n)
			}
		}
		return nil
	})
	return rows, err
}

// readNotBefore reads the cell with a row's time. past is Options.Past, until Options.Deadline.
func (l *layout) readNotBefore(cells []string, past, until time.Time) (at time.Time, bad *cellError) {
	if l.notBefore == 0 || cells[l.notBefore-1] == "" {
		return at, nil
	}
	at, err := order.ParseNotBefore(cells[l.notBefore-1], time.Now())
	switch {
	case err != nil:
	case !until.IsZero() && !at.Before(until):
		err = fmt.Errorf("%q is not before the deadline %s, so the order would expire; correct it, or give a later deadline", clip(cells[l.notBefore-1]), until.UTC().Format(time.RFC3339))
	case !past.IsZero() && order.LongPast(at, past):
		err = advise(fmt.Sprintf("%q is over, so the order would be sent at once; correct it, or leave the cell empty", clip(cells[l.notBefore-1])), " (or say --allow-past)")
	}
	if err != nil {
		return at, &cellError{column: l.notBefore, code: CodeTime, field: notBeforeColumn, err: err}
	}
	return at, nil
}

// namesTime reports whether an NDJSON line has a field with a time of its own. The word
// may stand elsewhere in an order.
func namesTime(line string) bool {
	if !strings.Contains(line, `"`+notBeforeColumn+`"`) {
		return false
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(line), &fields) // order.Parse judges the line
	_, has := fields[notBeforeColumn]
	return has
}

// errTimeInNDJSON refuses a time among the fields of an order. It would be sent to
// the API.
var errTimeInNDJSON = advise("NDJSON has no "+notBeforeColumn+": every field of a line is sent to the API; use CSV, or one time for the whole file", " (--not-before)")

// DefaultFullWait is the default of Options.FullWait.
const DefaultFullWait = 30 * time.Second

// roomPause is the interval between two looks at a full queue.
const roomPause = 250 * time.Millisecond

// room waits for room in a full queue.
type room struct {
	left  uint64    // intents that had left the queue at the last look
	since time.Time // when that last changed; zero = not looked yet
}

// await returns nil when another try makes sense: settled orders left the queue and so
// made room. Once no order was settled for Options.FullWait, it returns why with
// ErrInterrupted. The first call always allows another try, because orders may have
// been settled since the refusal.
func (r *room) await(ctx context.Context, p *publisher, why error) error {
	for {
		now, err := p.leftSoFar(ctx)
		switch {
		case err != nil:
			return err
		case r.since.IsZero():
			r.left, r.since = now, time.Now()
			return settle.Sleep(ctx, roomPause)
		case now > r.left:
			r.left, r.since = now, time.Now()
			return nil
		case time.Since(r.since) >= p.f.o.FullWait:
			return fmt.Errorf("%w, and no order was settled for %s: %w", why, p.f.o.FullWait, ErrInterrupted)
		}
		if err := settle.Sleep(ctx, roomPause); err != nil {
			return err
		}
	}
}

// leftSoFar returns the number of intents that have left the queue. What is settled makes
// room only then (R14).
func (p *publisher) leftSoFar(ctx context.Context) (uint64, error) {
	state, err := p.q.Intents().State(ctx)
	return state.LastSeq - min(state.LastSeq, state.Messages), err
}

// isFull reports whether the queue is full.
func isFull(err error) bool { return errors.Is(err, settle.ErrFull) }
