package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// notBeforeColumn is the column with the time before which a row's order is not sent.
const notBeforeColumn = "_not_before"

// ErrUnknownLane means that no person gave the lane a weight.
var ErrUnknownLane = errors.New("unknown lane")

// ErrNobodyFeeds means that orders with a time cannot wait, because no running worker
// feeds the queue from the waiting room.
var ErrNobodyFeeds = errors.New("orders with a time wait in the waiting room, and no running worker feeds the queue from it: start a worker of this version, or import without times")

// chooseLane sets the lane of this run. An import waits if a running worker feeds the
// queue from the waiting room. If no worker runs, it waits if there is a waiting room:
// the worker that is started next will feed. Otherwise it goes straight to the queue.
func (p *publisher) chooseLane(ctx context.Context) error {
	p.lane = p.f.o.Lane
	if p.lane == "" && !p.f.timed {
		return nil
	}
	view, err := fleet.New(p.q).Read(ctx)
	if err != nil {
		return err
	}
	if _, known := view.Lanes[p.lane]; p.lane != "" && p.lane != order.BulkLane && !known {
		lanes := append(slices.Sorted(maps.Keys(view.Lanes)), order.BulkLane)
		return fmt.Errorf("%w %q, there are: %s; orderpost lane %s 1 makes it", ErrUnknownLane, p.lane, strings.Join(lanes, ", "), p.lane)
	}
	present := view.Present()
	if slices.ContainsFunc(present, func(m fleet.Presence) bool { return m.Feeds }) {
		return nil
	}
	if len(present) == 0 {
		if has, err := p.q.HasWaitingRoom(ctx); err != nil || has {
			return err
		}
	}
	if p.f.timed {
		return ErrNobodyFeeds
	}
	p.lane, p.out.Direct, p.out.NoRoom = "", true, len(present) == 0
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
	err = books.EachWaiting(ctx, q, f.Batch, func(page []*settle.Message) error {
		for _, m := range page {
			if n, ok := RowOf(m.Header.Get(settle.HeaderIntentID), f.Batch); ok {
				rows.add(n)
			}
		}
		return nil
	})
	return rows, err
}

// readNotBefore reads the cell with a row's time.
func (l *layout) readNotBefore(cells []string) (at time.Time, bad *cellError) {
	if l.notBefore == 0 || cells[l.notBefore-1] == "" {
		return at, nil
	}
	at, err := order.ParseNotBefore(cells[l.notBefore-1], time.Now())
	if err != nil {
		return at, &cellError{l.notBefore, CodeTime, notBeforeColumn, err}
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
var errTimeInNDJSON = fmt.Errorf("NDJSON has no %s: every field of a line is sent to the API; use CSV, or --not-before for the whole file", notBeforeColumn)
