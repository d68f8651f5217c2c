package console

import (
	"strconv"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/status"
)

const (
	// pendingShown is how many orders a page lists, pendingLooked how many it looks at for
	// them: a filter may match few of a long queue.
	pendingShown  = 50
	pendingLooked = 20_000
)

// pendingPage lists orders in the queue that have no outcome yet.
type pendingPage struct {
	Filter status.PendingFilter
	// Import is what people call the import of the filter.
	Import string
	Orders []status.PendingOrder
	// Total is how many orders are in the queue, whatever the filter says.
	Total uint64
	// Waits is how many orders of the filter's import are in the waiting room, where the list
	// is empty.
	Waits uint64
	From  uint64
	// Begin is the address of the first page, Next that of the next one, Others that of
	// the list with or without the orders that were not attempted.
	Begin, Next, Others string
	// Cut says that the page ended because it had looked at many orders.
	Cut bool
}

func pendingAddress(f status.PendingFilter, from uint64) string {
	retrying := ""
	if f.Retrying {
		retrying = "on"
	}
	return address("/pending", parameters("batch", f.Batch, "retrying", retrying, "from", unlessZero(from)))
}

func showPending(v *visit) error {
	p := pendingPage{Filter: status.PendingFilter{Batch: v.query("batch"), Retrying: v.query("retrying") == "on"}}
	p.From, _ = strconv.ParseUint(v.query("from"), 10, 64)
	ctx := v.brief()
	counts, err := v.queue().Census.Count(ctx)
	if err != nil {
		return err
	}
	p.Total = counts.Pending
	next, err := status.PendingOrders(ctx, v.queue(), p.Filter, p.From, pendingShown, pendingLooked, func(o status.PendingOrder) error {
		p.Orders = append(p.Orders, o)
		return nil
	})
	if err != nil {
		return err
	}
	if len(p.Orders) == 0 && !p.Filter.Retrying {
		if p.Waits, err = imports.WaitingOf(ctx, v.queue(), p.Filter.Batch); err != nil {
			return err
		}
	}
	if p.Filter.Batch != "" {
		p.Import, _ = v.s.batches.name(ctx, p.Filter.Batch)
	}
	if next > 0 {
		p.Next, p.Cut = pendingAddress(p.Filter, next), len(p.Orders) < pendingShown
	}
	p.Begin = pendingAddress(p.Filter, 0)
	p.Others = pendingAddress(status.PendingFilter{Batch: p.Filter.Batch, Retrying: !p.Filter.Retrying}, 0)
	title := "Pending orders"
	if p.Filter.Retrying {
		title = "Orders that are retried"
	}
	v.live = true
	return v.render("pending", title, p)
}

// due says when the next attempt of an order is due.
func due(now time.Time, p status.PendingOrder) string {
	switch {
	case p.State != status.StateRetrying:
		return "–"
	case p.NextAt.After(now):
		return "in " + span(p.NextAt.Sub(now))
	default:
		return "when a worker is free"
	}
}
