package queue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// Lane is what waits in one lane of the waiting room.
type Lane struct {
	Name string `json:"lane"`
	// Ready counts the intents that wait for their turn, Later those whose time has
	// not come.
	Ready int `json:"ready"`
	Later int `json:"later"`
	// Paused counts the intents of imports that a person or a cancellation holds. They
	// are in neither of the others.
	Paused int `json:"paused,omitempty"`
	// Oldest is when the oldest ready intent was stored, or its time came; zero if
	// none is ready.
	Oldest time.Time `json:"oldest,omitzero"`
}

// OtherLanes stands for the lanes that are too many to tell apart: producers may name
// any. It is the name of no lane.
const OtherLanes = "(other)"

// mostLanes is how many lanes are told apart, mostAsked of how many imports the age is
// asked where others of their lane are held. mostOthers is of how many of the other
// lanes the age is asked, if none of their intents is among the oldest.
const (
	mostLanes  = 32
	mostAsked  = 32
	mostOthers = 256
)

// laneSum is a lane, and where to ask for the age of its oldest intent.
type laneSum struct {
	Lane
	ask []string // subjects without a time that are ready
}

// LanesOf sums up a list by lane, in the order of their names: the largest lanes, and the
// rest as OtherLanes. held tells which imports are held.
func (wr *WaitingRoom) LanesOf(ctx context.Context, list []Waiting, now time.Time, held func(token string) bool) ([]Lane, error) {
	sums := make(map[string]*laneSum)
	for _, w := range list {
		if sums[w.Lane] == nil {
			sums[w.Lane] = &laneSum{Lane: Lane{Name: w.Lane}}
		}
		sums[w.Lane].add(w, now, held(w.Import))
	}
	lanes := slices.Collect(maps.Values(sums))
	slices.SortFunc(lanes, func(a, b *laneSum) int {
		return cmp.Or(cmp.Compare(b.size(), a.size()), cmp.Compare(a.Name, b.Name))
	})
	var others []*laneSum
	if len(lanes) > mostLanes+1 {
		lanes, others = lanes[:mostLanes], lanes[mostLanes:]
	}
	out := make([]Lane, 0, mostLanes+1)
	for _, lane := range lanes {
		if err := wr.askOldest(ctx, lane); err != nil {
			return nil, err
		}
		out = append(out, lane.Lane)
	}
	if len(others) > 0 {
		rest, err := wr.sumOthers(ctx, others)
		if err != nil {
			return nil, err
		}
		out = append(out, rest)
	}
	slices.SortFunc(out, func(a, b Lane) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// sumOthers sums up lanes as OtherLanes. An old intent of theirs is among the oldest of
// all, so one page of these usually tells the age.
func (wr *WaitingRoom) sumOthers(ctx context.Context, others []*laneSum) (Lane, error) {
	rest := laneSum{Lane: Lane{Name: OtherLanes}}
	ready := make(map[string]bool) // subjects
	for _, l := range others {
		rest.Ready, rest.Later, rest.Paused = rest.Ready+l.Ready, rest.Later+l.Later, rest.Paused+l.Paused
		if !l.Oldest.IsZero() {
			rest.since(l.Oldest)
		}
		for _, subject := range l.ask {
			ready[subject] = true
		}
	}
	if len(ready) == 0 {
		return rest.Lane, nil
	}
	page, _, err := wr.Page(ctx, wr.conn.n.waitPre+"*.*", 0, pageSize)
	if err != nil {
		return rest.Lane, err
	}
	for _, m := range page {
		if ready[m.Subject] {
			rest.since(m.Time)
			return rest.Lane, nil
		}
	}
	for _, l := range others[:min(len(others), mostOthers)] {
		if err := wr.askOldest(ctx, l); err != nil {
			return rest.Lane, err
		}
		if !l.Oldest.IsZero() {
			rest.since(l.Oldest)
		}
	}
	return rest.Lane, nil
}

func (l *laneSum) size() int { return l.Ready + l.Later + l.Paused }

func (l *laneSum) add(w Waiting, now time.Time, held bool) {
	switch {
	case held:
		l.Paused += w.Count
		return
	case w.At.After(now):
		l.Later += w.Count
		return
	}
	l.Ready += w.Count
	switch {
	case w.At.IsZero():
		l.ask = append(l.ask, w.Subject)
	case !w.At.Equal(noTime):
		l.since(w.At)
	}
}

func (l *laneSum) since(at time.Time) {
	if l.Oldest.IsZero() || at.Before(l.Oldest) {
		l.Oldest = at
	}
}

// askOldest asks when the oldest intents of a lane were stored: one request for the
// lane, or one for each import where others of the lane are held. Imports take turns,
// so some tell about all.
func (wr *WaitingRoom) askOldest(ctx context.Context, l *laneSum) error {
	subjects := l.ask[:min(len(l.ask), mostAsked)]
	if len(l.ask) > 1 && l.Paused == 0 {
		subjects = []string{wr.conn.n.waitPre + l.Name + ".*"}
	}
	for _, subject := range subjects {
		first, _, err := wr.Page(ctx, subject, 0, 1)
		if err != nil {
			return err
		}
		if len(first) > 0 { // otherwise it was moved
			l.since(first[0].Time)
		}
	}
	return nil
}
