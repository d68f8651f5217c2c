package powercut

import (
	"errors"
	"slices"
)

// shrink returns the state of the same cut that undoes the fewest operations and still
// loses for the same reason. judged says what a state loses; nil = nothing.
func (t *trace) shrink(s *state, lost *loss, judged func(*state) error) (*state, *loss) {
	var undone []int // into open
	for i, f := range s.fates {
		if !f.kept {
			undone = append(undone, i)
		}
	}
	try := func(restore []int) bool {
		c := &state{model: s.model, cut: s.cut, open: s.open, fates: slices.Clone(s.fates)}
		for _, i := range restore {
			c.fates[i] = fate{kept: true}
		}
		var l *loss
		if !c.possible(t) || !errors.As(judged(c), &l) || l.reason != lost.reason {
			return false
		}
		s, lost = c, l
		return true
	}
	// Restore halves first, then smaller pieces, as delta debugging does.
	for size := (len(undone) + 1) / 2; size > 0 && len(undone) > 0; {
		again := false
		for from := 0; from < len(undone); {
			to := min(from+size, len(undone))
			if try(undone[from:to]) {
				undone = slices.Delete(undone, from, to)
				again = true
			} else {
				from = to
			}
		}
		if size == 1 && !again {
			break
		}
		if !again || size > len(undone) {
			size = max(1, min(size/2, len(undone)))
		}
	}
	return s, lost
}

// possible reports whether the file system can leave the state: a log has no gaps.
func (s *state) possible(t *trace) bool {
	if s.model != journal {
		return true
	}
	gap := false
	for i, o := range s.open {
		switch {
		case t.ops[o].kind == writeOp:
		case !s.fates[i].kept:
			gap = true
		case gap:
			return false
		}
	}
	return true
}
