package console

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// lastShown is how many orders a page lists, and lastLooked how many sequences of the results it looks at for them.
	lastShown, lastLooked = 100, 20_000
	// lastSpan is how many it reads at once.
	lastSpan = 1_000
)

// lastOrders lists orders by their last records, the newest first.
type lastOrders struct {
	// Outcome, Batch and Answer are what the list is limited to; empty = nothing. Answer is a part of the answer.
	Outcome, Batch, Answer string
	// From and To limit it to what was stored from one time (UTC) up to another, as an input of the type datetime-local has
	// them.
	From, To string
	Outcomes []string
	Orders   []*order.Record
	// Older is the address of the next page; empty = there is none. Cut says that the page ends because many orders that
	// do not match lie in between.
	Older string
	Cut   bool
	// Later says that the page is not the first one, and First is the address of that.
	Later bool
	First string
}

// findLast reads the list that the request asks for.
func findLast(v *visit) (*lastOrders, error) {
	l := &lastOrders{Outcome: v.query("outcome"), Batch: strings.TrimSpace(v.query("batch")), Answer: strings.TrimSpace(v.query("answer")),
		From: v.query("from"), To: v.query("to")}
	for _, o := range order.Outcomes() {
		l.Outcomes = append(l.Outcomes, o.String())
	}
	l.Outcomes = append(l.Outcomes, order.Retrying)
	if l.Outcome != "" && !slices.Contains(l.Outcomes, l.Outcome) {
		return nil, badRequest("There is no outcome "+shorten(l.Outcome, 40)+".", "Choose one of the list.")
	}
	ctx := v.brief()
	results := v.queue().Results()
	state, err := results.State(ctx)
	if err != nil {
		return nil, err
	}
	last, end := state.LastSeq, max(state.FirstSeq, 1)
	if l.From != "" {
		first, err := firstAt(ctx, results, l.From, last)
		if err != nil {
			return nil, err
		}
		end = max(end, first)
	}
	if l.To != "" {
		first, err := firstAt(ctx, results, l.To, last)
		if err != nil {
			return nil, err
		}
		last = first - 1
	}
	if text := v.query("before"); text != "" {
		before, err := strconv.ParseUint(text, 10, 64)
		if err != nil || before == 0 {
			return nil, badRequest("This list has no such page.", "Begin at its first page.")
		}
		last = min(last, before-1)
		l.Later, l.First = true, l.address(0)
	}
	for looked := uint64(0); last >= end; last -= min(last, lastSpan) {
		first := max(end, last-min(last, lastSpan)+1)
		var found []*order.Record
		var at []uint64
		err := results.Walk(ctx, first, last, func(page []*settle.Message) error {
			for _, m := range page {
				if entry, err := queue.DecodeRecord(m); err == nil && l.matches(entry.Record) { // the audit names what cannot be read
					found, at = append(found, entry.Record), append(at, m.Seq)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i := len(found) - 1; i >= 0; i-- {
			if len(l.Orders) == lastShown {
				l.Older = l.address(at[i] + 1)
				return l, nil
			}
			l.Orders = append(l.Orders, found[i])
		}
		if looked += lastSpan; looked >= lastLooked && first > end {
			l.Cut, l.Older = len(l.Orders) < lastShown, l.address(first)
			break
		}
	}
	return l, nil
}

func (l *lastOrders) matches(r *order.Record) bool {
	return (l.Outcome == "" || r.Word == l.Outcome) && (l.Batch == "" || r.Batch == l.Batch) &&
		(l.Answer == "" || containsFold(r.Response, l.Answer) || containsFold(r.Reason, l.Answer) || containsFold(r.Error, l.Answer))
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// address returns the address of the page with the records before a sequence; 0 = the first page.
func (l *lastOrders) address(before uint64) string {
	return address("/order", parameters("outcome", l.Outcome, "batch", l.Batch, "answer", l.Answer, "from", l.From, "to", l.To, "before", unlessZero(before)))
}

// firstAt returns the sequence of the first record that was stored at or after a time; last+1 if none was.
func firstAt(ctx context.Context, results queue.Stream, text string, last uint64) (uint64, error) {
	at, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		return 0, badRequest(shorten(text, 40)+" is no time such as 2026-06-30T08:15.", "Choose a day and a time.")
	}
	first, err := results.At(ctx, at)
	if err == nil && first == 0 {
		first = last + 1
	}
	return first, err
}
