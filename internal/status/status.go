package status

import (
	"context"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// OrderStatus is what the streams hold about one order_no.
type OrderStatus struct {
	// Pending is the stored intent that has no outcome yet; nil where there is none.
	Pending *settle.Pending
	// LastWord is the record; its Record is nil where there is none.
	settle.LastWord
	// Lost says that the record is a note about an intent that left the queue without an
	// outcome: the stream was lost, or somebody removed the intent. No worker has the order.
	Lost bool
}

// OrderStatuses reads the pending intent and the record of each order_no, in the
// order of orderNos.
func OrderStatuses(ctx context.Context, q *queue.Queue, orderNos []string) ([]OrderStatus, error) {
	out, err := readStatuses(ctx, q, orderNos)
	var noted []string
	var index []int
	for i := range out {
		if r := out[i].Record; out[i].Pending == nil && r != nil && r.Outcome() == order.OutcomeNone {
			noted, index = append(noted, orderNos[i]), append(index, i)
		}
	}
	if err != nil || len(noted) == 0 {
		return out, err
	}
	// The intent of such a note was lost, or was stored between the two reads. If it is still
	// missing behind the same note, it was lost.
	again, err := readStatuses(ctx, q, noted)
	for k := range again {
		again[k].Lost = again[k].Pending == nil && again[k].Seq == out[index[k]].Seq
		out[index[k]] = again[k]
	}
	return out, err
}

// readStatuses reads intents first: an intent that is gone by then had its result before.
func readStatuses(ctx context.Context, q *queue.Queue, orderNos []string) ([]OrderStatus, error) {
	out := make([]OrderStatus, len(orderNos))
	tokens := make([]string, len(orderNos))
	for i, no := range orderNos {
		tokens[i] = order.Token(no)
	}
	stored := make([]*settle.Message, len(orderNos))
	if err := q.Intents().Last(ctx, tokens, func(i int, m *settle.Message) { stored[i] = m }); err != nil {
		return nil, err
	}
	words, err := q.Ledger.LastWords(ctx, orderNos)
	for i := range words {
		out[i].LastWord = words[i]
		if m := stored[i]; m != nil && !m.SettledBy(words[i].Record) {
			out[i].Pending = settle.ReadPending(orderNos[i], m)
		}
	}
	return out, err
}

// Found is what the streams hold about one order, its dead letters included.
type Found struct {
	settle.Entry
	// Letters are the dead letters that the record names, the one that was filed last first.
	Letters []*settle.Letter
	// Pending is true while an intent is in the queue.
	Pending bool
	// Intent is that intent.
	Intent *settle.Pending
	// Waiting is how many intents of any order are in the waiting room, whose subjects
	// name no orders. Find leaves it at 0, which is right for an order that exists.
	Waiting uint64
	// NothingSent is a sentence if no worker sends (fleet.View). Find leaves it empty.
	NothingSent string
}

// Find reads all that is known about an order, at the leaders of the streams.
// name is an order_no, or what a listing shows of a message whose subject belongs
// to no order_no (settle.Ledger.TokenOf).
func Find(ctx context.Context, q *queue.Queue, name string) (f Found, err error) {
	token, err := q.Ledger.TokenOf(ctx, name)
	if err != nil {
		return f, err
	}
	if f.Entry, err = q.Store().Record(ctx, token); err != nil {
		return f, err
	}
	if f.Letters, err = q.Ledger.LettersOf(ctx, token, f.Record); err != nil {
		return f, err
	}
	raw, err := q.Store().Intent(ctx, name)
	if err == nil && raw != nil && !raw.SettledBy(f.Record) {
		f.Pending, f.Intent = true, settle.ReadPending(name, raw)
	}
	return f, err
}
