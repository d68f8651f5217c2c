package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDuplicatesOnDisk: runs on disk find the same as memory does, and leave
// nothing behind.
func TestDuplicatesOnDisk(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, limit := range []int{7, 100, 5000, 1 << 20} {
		d := newDuplicates("")
		d.limit = limit
		want := map[int]int{}
		first := map[string]int{}
		for line := 2; line < 5000; line++ {
			no := fmt.Sprintf("A-%d", line)
			if line%97 == 0 {
				no = fmt.Sprintf("A-%d", line/2)
			}
			if at, twice := first[no]; twice {
				want[line] = at
			} else {
				first[no] = line
			}
			require.NoError(t, d.add(no, line))
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Empty(t, files, "nothing is left where the program is killed")
		require.Equal(t, limit < 5000, d.spill != nil, "limit %d", limit)
		count, err := d.find()
		require.NoError(t, err)
		require.Equal(t, len(want), count)
		require.Equal(t, want, d.first)
		for line := range 6000 {
			_, repeated := want[line]
			require.Equal(t, repeated, d.has(line), "line %d", line)
		}
		files, err = filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Empty(t, files)
	}
}

func TestDuplicatesNoRoom(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	d := newDuplicates("")
	d.limit = 2
	require.NoError(t, d.add("a", 2))
	require.ErrorIs(t, d.add("b", 3), os.ErrNotExist)
}

func TestRepeatedNumbersAreNamed(t *testing.T) {
	f := openText(t, joined("order_no,timeout", "A-1,30", "A-2,soon", ",30", "A-1,60", "A-1,90"))
	require.Equal(t, strings.Join([]string{
		`orders.csv:3:2: column timeout: "soon" is not a whole number such as 30`,
		`orders.csv:4:1: order_no: an empty string cannot be an order number; send a string of 1 to 255 bytes`,
		`orders.csv:5: column order_no: order_no "A-1" occurs in line 2 already; each order needs its own`,
		`orders.csv:6: column order_no: order_no "A-1" occurs in line 2 already; each order needs its own`,
	}, "\n"), refusals(t, f))
	require.Contains(t, refusals(t, f), "orders.csv:6: ", "a check can be repeated")
}

func TestMaxErrors(t *testing.T) {
	var b strings.Builder
	b.WriteString("order_no,timeout\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "A-%d,soon\n", i)
	}
	got := refusals(t, openText(t, b.String(), func(o *Options) { o.MaxErrors = 5 }))
	require.Equal(t, 5, strings.Count(got, "is not a whole number"))
	require.Contains(t, got, "orders.csv:6:2: ")
	require.Contains(t, got, "stopped after 5 bad rows (--max-errors)")
}
