package order

import (
	"cmp"
	"slices"
)

// Turns decides which import feeds the queue next. Lanes take turns by their
// weights, and the imports of one lane take equal turns. So a small import beside
// a large one takes a time that is proportional to its own size, and a lane that
// is empty costs the others nothing.
//
// Anybody who may publish can name any number of lanes. So the lanes that nobody gave a
// weight share the turns of one lane, and their imports take equal turns in it. BulkLane
// has turns of its own.
//
// Turns is stride scheduling: each turn advances a lane's pass by 1/weight, and
// the lane with the lowest pass is next. The zero value is ready for use.
type Turns struct {
	lanes map[string]*laneTurns // by the name that turnOf returns
}

type laneTurns struct {
	pass    float64
	imports []LaneImport // in the order of their next turns
}

// sharedTurn stands for all lanes without a weight. It is the name of no lane.
const sharedTurn = ""

// turnOf returns under which name a lane takes turns.
func turnOf(lane string, weights map[string]int) string {
	if _, weighted := weights[lane]; weighted || lane == BulkLane {
		return lane
	}
	return sharedTurn
}

// LaneImport names one import in one lane.
type LaneImport struct{ Lane, Import string }

// Take returns how many of the next n intents each import may feed. waiting holds
// how many intents each import has ready. weights holds the weight of each lane
// that has one; BulkLane, and the others together, have DefaultWeight. A lane or import that was not ready
// before starts level with the others: waiting longer earns no credit, because a
// burst of credit would keep the others waiting.
func (t *Turns) Take(n int, waiting map[LaneImport]int, weights map[string]int) map[LaneImport]int {
	t.follow(waiting, weights)
	left := make(map[LaneImport]int, len(waiting))
	ready := make(map[string]int, len(t.lanes)) // by the name that takes the turn
	for which, count := range waiting {
		left[which] = count
		ready[turnOf(which.Lane, weights)] += max(count, 0)
	}
	taken, names := make(map[LaneImport]int), t.names()
	for ; n > 0; n-- {
		name, any := t.next(names, ready)
		if !any {
			break
		}
		lane := t.lanes[name]
		which := lane.turn(func(imp LaneImport) bool { return left[imp] > 0 })
		left[which]--
		ready[name]--
		taken[which]++
		lane.pass += 1 / float64(weightOf(name, weights))
	}
	return taken
}

// weightOf returns a lane's weight within its bounds.
func weightOf(lane string, weights map[string]int) int {
	w, known := weights[lane]
	if !known {
		return DefaultWeight
	}
	return min(max(w, 1), MaxWeight)
}

// follow forgets lanes and imports that have nothing ready and adds the new
// ones.
func (t *Turns) follow(waiting map[LaneImport]int, weights map[string]int) {
	level := 0.0
	for name, lane := range t.lanes {
		lane.imports = slices.DeleteFunc(lane.imports, func(imp LaneImport) bool {
			return waiting[imp] <= 0 || turnOf(imp.Lane, weights) != name // it was given a weight, or lost it
		})
		if len(lane.imports) == 0 {
			delete(t.lanes, name)
		}
	}
	for i, name := range t.names() {
		if pass := t.lanes[name].pass; i == 0 || pass < level {
			level = pass
		}
	}
	if t.lanes == nil {
		t.lanes = make(map[string]*laneTurns)
	}
	for _, lane := range t.lanes {
		lane.pass -= level // keeps the numbers small for ever
	}
	known := make(map[LaneImport]bool, len(waiting))
	for _, lane := range t.lanes {
		for _, imp := range lane.imports {
			known[imp] = true
		}
	}
	fresh := make([]LaneImport, 0)
	for which, count := range waiting {
		if count > 0 && !known[which] {
			fresh = append(fresh, which)
		}
	}
	slices.SortFunc(fresh, func(a, b LaneImport) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Import, b.Import))
	})
	for _, which := range fresh {
		name := turnOf(which.Lane, weights)
		if t.lanes[name] == nil {
			t.lanes[name] = &laneTurns{}
		}
		t.lanes[name].imports = append(t.lanes[name].imports, which)
	}
}

// names returns the lanes in the order of their names, so that equal passes give
// the same order every time.
func (t *Turns) names() []string {
	names := make([]string, 0, len(t.lanes))
	for name := range t.lanes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// next returns the name of the lane whose turn it is. any is false if none has anything
// ready.
func (t *Turns) next(names []string, ready map[string]int) (name string, any bool) {
	for _, n := range names {
		if ready[n] > 0 && (!any || t.lanes[n].pass < t.lanes[name].pass) {
			name, any = n, true
		}
	}
	return name, any
}

// turn returns the next import that is ready and moves it to the end. The caller
// knows that one is.
func (l *laneTurns) turn(ready func(LaneImport) bool) LaneImport {
	i := slices.IndexFunc(l.imports, ready)
	name := l.imports[i]
	if i == 0 { // nearly always, and copies nothing
		l.imports = append(l.imports[1:], name)
	} else {
		l.imports = append(slices.Delete(l.imports, i, i+1), name)
	}
	return name
}
