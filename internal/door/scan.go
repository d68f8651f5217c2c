package door

import (
	"context"
	"fmt"
	"slices"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// mostScanned bounds how many waiting orders are read to find one.
const mostScanned = 10_000

// scan looks for one order_no in the waiting room. Subjects there name no orders, so it
// reads all of them; concurrent scans are one.
type scan struct {
	orderNo string
	found   []Outcome
	any     bool   // the waiting room is not empty
	crowded uint64 // how many orders wait, if they are too many to read them
	err     error
	done    chan struct{}
}

func (d *Door) scan(ctx context.Context, orderNo string) (*scan, error) {
	s := &scan{orderNo: orderNo, done: make(chan struct{})}
	d.scans.add(s)
	if err := d.awaits(ctx, s.done); err != nil {
		return s, err
	}
	return s, d.unread(s.err)
}

// find returns the waiting submission with an ID ("" = any), or nil. In a crowded room
// every order may wait.
func (s *scan) find(id string) *Outcome {
	if i := slices.IndexFunc(s.found, func(o Outcome) bool { return id == "" || o.ID == id }); i >= 0 {
		return &s.found[i]
	}
	if s.crowded > 0 {
		return &Outcome{OrderNo: s.orderNo, ID: id, Pending: true, Created: "unknown",
			Reason: fmt.Sprintf("no result yet; it may be among the %d orders that wait, which are too many to look for one", s.crowded)}
	}
	return nil
}

// scanRoom makes the scans of a batch.
func (d *Door) scanRoom(batch []*scan) {
	total, err := d.q.Waiting.Total(d.ctx)
	wanted := make(map[string][]*scan, len(batch))
	for _, s := range batch {
		s.any = total > 0
		if total > mostScanned {
			s.crowded = total
		}
		wanted[s.orderNo] = append(wanted[s.orderNo], s)
	}
	if err == nil && total > 0 && total <= mostScanned {
		err = d.q.Waiting.Each(d.ctx, "", queue.ToTheEnd, func(page []*settle.Message) error {
			for _, m := range page {
				for _, s := range wanted[settle.WaitingOrderNo(m)] {
					s.found = append(s.found, waitingOutcome(s.orderNo, m))
				}
			}
			return nil
		})
	}
	for _, s := range batch {
		s.err = err
		close(s.done)
	}
}

func waitingOutcome(orderNo string, m *settle.Message) Outcome {
	return Outcome{OrderNo: orderNo, ID: m.IntentID(), Pending: true, Created: "unknown", Reason: "it waits for its turn or its time",
		Batch: m.Header.Get(settle.HeaderBatch), Source: m.Header.Get(settle.HeaderSource)}
}
