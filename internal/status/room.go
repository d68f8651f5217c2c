package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// Room is the waiting room as people see it.
type Room struct {
	// Lanes are those in which something waits, and those that have a weight.
	Lanes []RoomLane
	// Imports are those of which something waits, the largest ones, at most
	// mostImportsShown. More counts the others.
	Imports []RoomImport
	More    int
	// Held are the imports that are not fed, by name.
	Held []HeldImport
	*imports.Feeding
}

// RoomLane is a lane with its weight.
type RoomLane struct {
	queue.Lane
	Weight int `json:"weight"`
}

// RoomImport is what waits of one import.
type RoomImport struct {
	// Batch is the name of the import; "" for orders of none.
	Batch string
	Lane  string
	// Ready waits for its turn, Later for its time. First and Last are those times.
	Ready, Later int
	First, Last  time.Time
	// Hold is what keeps it from being fed: a pause, or the lack of an approval.
	Hold *imports.Hold
}

// HeldImport is an import that a person paused.
type HeldImport struct {
	Import string `json:"import"`
	By     string `json:"by"`
}

// mostImportsShown bounds Room.Imports.
const mostImportsShown = 100

// ReadRoom reads the waiting room. weights are the lanes' weights.
func ReadRoom(ctx context.Context, q *queue.Queue, weights map[string]int, now time.Time) (*Room, error) {
	feeding, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return nil, err
	}
	r := &Room{Feeding: feeding}
	list, err := q.Waiting.All(ctx)
	if err != nil {
		return nil, err
	}
	var lanes []queue.Lane
	if len(list) > 0 {
		if lanes, err = q.Waiting.LanesOf(ctx, list, now, func(token string) bool { return feeding.HoldOf(token) != nil }); err != nil {
			return nil, err
		}
	}
	for _, lane := range lanes {
		weight, known := weights[lane.Name]
		if !known {
			weight = order.DefaultWeight
		}
		r.Lanes = append(r.Lanes, RoomLane{lane, weight})
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if !slices.ContainsFunc(lanes, func(l queue.Lane) bool { return l.Name == name }) {
			r.Lanes = append(r.Lanes, RoomLane{queue.Lane{Name: name}, weights[name]})
		}
	}
	r.sum(list, now)
	for _, token := range slices.Sorted(maps.Keys(feeding.Holds)) {
		r.Held = append(r.Held, HeldImport{imports.ImportName(token), feeding.Holds[token].By()})
	}
	return r, nil
}

// sum sums up what waits by import.
func (r *Room) sum(list []queue.Waiting, now time.Time) {
	type key struct{ lane, token string }
	all := make(map[key]*RoomImport)
	for _, w := range list {
		i := all[key{w.Lane, w.Import}]
		if i == nil {
			i = &RoomImport{Lane: w.Lane, Hold: r.HoldOf(w.Import)}
			if w.Import != imports.ImportToken("") {
				i.Batch = imports.ImportName(w.Import)
			}
			all[key{w.Lane, w.Import}] = i
		}
		if !w.At.After(now) {
			i.Ready += w.Count
			continue
		}
		i.Later += w.Count
		if i.First.IsZero() || w.At.Before(i.First) {
			i.First = w.At
		}
		if w.At.After(i.Last) {
			i.Last = w.At
		}
	}
	for _, i := range all {
		r.Imports = append(r.Imports, *i)
	}
	slices.SortFunc(r.Imports, func(a, b RoomImport) int {
		return cmp.Or(cmp.Compare(b.Ready+b.Later, a.Ready+a.Later), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Lane, b.Lane))
	})
	if len(r.Imports) > mostImportsShown {
		r.More, r.Imports = len(r.Imports)-mostImportsShown, r.Imports[:mostImportsShown]
	}
}
