package powercut

import (
	"math/rand/v2"
	"slices"
)

// moments returns the last lines before something becomes certain, or before the broker is
// asked to remove something: whatever it had confirmed by then must be on the disk without
// that.
func (t *trace) moments() []int {
	cuts := []int{t.lines}
	for _, o := range t.ops {
		if (o.kind == syncOp || o.own) && o.exit != never {
			cuts = append(cuts, o.exit-1)
		}
	}
	for _, e := range t.events {
		if e.removed {
			cuts = append(cuts, e.line-1)
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// bare returns what a power cut at a line leaves for certain.
func (t *trace) bare(m model, cut int) *state {
	open, _ := t.pending(m, cut)
	return &state{model: m, cut: cut, open: open, fates: make([]fate, len(open))}
}

// drawCut chooses the line of the trace at which the power is cut: often just when a
// confirmation has left, or while an operation is under way.
func (t *trace) drawCut(draw *rand.Rand) int {
	switch n := draw.IntN(10); {
	case n < 4 && len(t.events) > 0:
		return t.events[draw.IntN(len(t.events))].line
	case n < 5 && len(t.posts) > 0:
		return t.posts[draw.IntN(len(t.posts))].sent
	case n < 6 && len(t.renames) > 0: // two files that belong together may be renamed one by one
		return t.ops[t.renames[draw.IntN(len(t.renames))]].exit
	case n < 8:
		o := t.ops[draw.IntN(len(t.ops))]
		if o.exit == never || draw.IntN(2) == 0 {
			return o.enter
		}
		return o.exit
	}
	return draw.IntN(t.lines)
}

// drawState draws what a power cut at a line leaves.
func (t *trace) drawState(m model, cut int, draw *rand.Rand) *state {
	s := t.bare(m, cut)
	open := s.open
	if len(open) == 0 {
		return s
	}
	plan := draw.IntN(9)
	one, share := draw.IntN(len(open)), draw.Float64()
	logged := s.drawLog(t, plan, draw)
	for i, o := range open {
		isName := t.ops[o].kind != writeOp
		keep := false
		switch plan {
		case 0: // nothing that was not synced
		case 1: // everything
			keep = true
		case 2: // data without names
			keep = !isName
		case 3: // names before their data
			keep = isName
		case 4: // all but one
			keep = i != one
		case 5: // only one
			keep = i == one
		default:
			keep = draw.Float64() < share
		}
		s.fates[i].kept = keep
		if m == journal && isName {
			s.fates[i].kept = i < logged
			continue
		}
		if !isName && (plan >= 6 && draw.IntN(3) == 0 || plan == 1 && i == len(open)-1 && draw.IntN(2) == 0) {
			s.fates[i] = fate{torn: true, sectors: draw.Uint64(), extended: draw.IntN(2) == 0}
			if draw.IntN(4) == 0 {
				s.fates[i].sectors = 0 // the size without any data
			}
		}
	}
	return s
}

// drawLog returns the index of the first open operation that the log lost.
func (s *state) drawLog(t *trace, plan int, draw *rand.Rand) int {
	switch plan {
	case 0, 2:
		return 0
	case 1, 3:
		return len(s.open)
	}
	return draw.IntN(len(s.open) + 1)
}
