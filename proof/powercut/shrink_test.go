package powercut

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// shrink finds the two operations without which the loss is none, among fifty that are
// undone.
func TestShrink(t *testing.T) {
	lines := []string{`openat(AT_FDCWD, "/disk", O_RDONLY) = 3`}
	for i := range 50 {
		lines = append(lines, fmt.Sprintf(`openat(AT_FDCWD, "/disk/%02d", O_RDWR|O_CREAT, 0600) = 4`, i))
	}
	tr := script(t, lines...)
	for _, m := range models() {
		ops, _ := tr.pending(m, tr.lines)
		require.Len(t, ops, 50)
		s := &state{model: m, cut: tr.lines, open: ops, fates: make([]fate, len(ops))}
		tries := 0
		small, l := tr.shrink(s, &loss{"gone", "all"}, func(s *state) error {
			tries++
			require.True(t, s.possible(tr))
			got := files(tr.build(s))
			_, a := got["17"]
			_, b := got["31"]
			if !a && !b {
				return &loss{"gone", "both"}
			}
			if !a {
				return &loss{"another reason", ""}
			}
			return nil
		})
		require.Equal(t, "both", l.detail)
		var undone []string
		for i, f := range small.fates {
			if !f.kept {
				undone = append(undone, tr.ops[ops[i]].text)
			}
		}
		if m == strict {
			require.Equal(t, []string{"create 17", "create 31"}, undone)
		} else { // a log loses everything after the first that it loses
			require.Len(t, undone, 50-17)
		}
		require.Less(t, tries, 300)
	}
}

// What fails for another reason than a loss shrinks nothing.
func TestShrinkKeepsToLosses(t *testing.T) {
	tr := script(t, `openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 4`)
	ops, _ := tr.pending(strict, 0)
	s := &state{model: strict, open: ops, fates: make([]fate, 1)}
	small, l := tr.shrink(s, &loss{"gone", ""}, func(*state) error { return errors.New("no room") })
	require.Equal(t, s, small)
	require.Equal(t, "gone", l.reason)
}
