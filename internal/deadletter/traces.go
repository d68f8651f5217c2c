package deadletter

import (
	"context"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// clockSlack is how far the clocks of a broker and of whoever acts may differ.
const clockSlack = 5 * time.Second

// OfOrder returns the acts of people on an order, on its import, and on groups of dead
// letters that had the order's letter among them, newest first. The journal has one
// entry for a group and names no order in it, so OfOrder looks at what the group acts
// left on the order.
func OfOrder(ctx context.Context, q *queue.Queue, orderNo, batch string, found *status.Found) ([]journal.Item, error) {
	items, err := journal.OfOrder(ctx, q, orderNo, batch)
	if err != nil {
		return items, err
	}
	known := make(map[string]bool)
	for _, item := range items {
		known[item.ID] = true
	}
	all := traces(found)
	for _, kind := range []journal.Kind{journal.Replay, journal.Lookup, journal.Resolve, journal.Drop} {
		of := slices.DeleteFunc(slices.Clone(all), func(t trace) bool { return t.kind != kind })
		if len(of) == 0 {
			continue
		}
		page, err := journal.Read(ctx, q, journal.Query{Kind: kind, Many: true, Limit: maxMany})
		if err != nil {
			return items, err
		}
		for _, item := range page.Items {
			if !known[item.ID] && slices.ContainsFunc(of, func(t trace) bool { return t.by(item) }) {
				known[item.ID] = true
				items = append(items, item)
			}
		}
	}
	slices.SortStableFunc(items, func(a, b journal.Item) int { return b.Stored.Compare(a.Stored) })
	return items, nil
}

// maxMany is the largest number of acts on groups, for each kind, that OfOrder looks at.
const maxMany = 1000

// trace is what an act left on an order.
type trace struct {
	kind journal.Kind
	at   time.Time
	name string // who did it; "" = not recorded
	// letter is the sequence of the letter that the act was about; 0 = not recorded.
	letter uint64
}

// traces reads the traces of acts on what is known of an order.
func traces(f *status.Found) (all []trace) {
	replayed := func(id string, at time.Time) {
		if seq := settle.LetterReplayed(id); seq > 0 {
			all = append(all, trace{kind: replayKind(id), at: at, letter: seq})
		}
	}
	if f.Intent != nil {
		replayed(f.Intent.ID, f.Intent.StoredAt)
	}
	for _, l := range f.Letters {
		replayed(l.IntentID, l.EnqueuedAt)
	}
	if r := f.Record; r != nil {
		replayed(r.IntentID, r.EnqueuedAt)
		for _, i := range r.Interventions {
			t := trace{kind: journal.Drop, at: i.At, name: i.By, letter: settle.LetterDropped(i.Did)}
			switch {
			case settle.WasResolved(i.Did):
				t.kind = journal.Resolve
			case settle.WasErased(i.Did):
				t.kind = journal.Erase
			case t.letter == 0: // another attempt, or a lookup, was allowed
				t.kind, t.letter = replayKind(r.AllowedFor), settle.LetterReplayed(r.AllowedFor)
			}
			all = append(all, t)
		}
	}
	return all
}

func replayKind(intentID string) journal.Kind {
	if settle.AsksOnly(intentID) {
		return journal.Lookup
	}
	return journal.Replay
}

// by reports whether the act left the trace.
func (t trace) by(item journal.Item) bool {
	switch {
	case t.at.Before(item.At.Add(-clockSlack)), !item.Ended.IsZero() && t.at.After(item.Ended.Add(clockSlack)):
		return false
	case t.letter > item.LastSeq, t.name != "" && t.name != item.Actor.Name:
		return false
	}
	chosen, byHand := item.Filter["letter"]
	return t.letter == 0 || !byHand || slices.Contains(chosen, strconv.FormatUint(t.letter, 10))
}
