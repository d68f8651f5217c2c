package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDuplicatesInBoundedMemory: with as little memory as it may have, and in as many passes
// as that takes, duplicates finds the same.
func TestDuplicatesInBoundedMemory(t *testing.T) {
	const lines = 5000
	number := func(line int) string {
		switch {
		case line%97 == 0:
			return fmt.Sprintf("A-%d", line/2)
		case line%3 == 0:
			return "the same"
		}
		return fmt.Sprintf("A-%d", line)
	}
	want, first := map[int]int{}, map[string]int{}
	for line := 2; line < lines; line++ {
		if at, twice := first[number(line)]; twice {
			want[line] = at
		} else {
			first[number(line)] = line
		}
	}
	for _, limit := range []int{20, 100, lines, 1 << 20} {
		d := newDuplicates()
		d.limit, d.room = limit, limit
		passes := 0
		for more := true; more; more = d.find() {
			passes++
			for line := 2; line < lines; line++ {
				d.add(number(line), line)
				held := 0
				for _, list := range d.entries {
					held += len(list)
				}
				require.LessOrEqual(t, held, 3*limit)
			}
		}
		require.Equal(t, limit < lines, passes > 1, "limit %d, %d passes", limit, passes)
		require.Equal(t, len(want), d.count)
		require.Equal(t, want, d.first)
		for line := range lines + 1000 {
			_, repeated := want[line]
			require.Equal(t, repeated, d.has(line), "line %d", line)
		}
	}
}

// TestDuplicatesInAFileOfManyRows: the check reads such a file once for each share of the
// order numbers.
func TestDuplicatesInAFileOfManyRows(t *testing.T) {
	const rows = 20 * chunkRows
	f := openText(t, numbered(1, rows, "1")+numbered(77, 77, "1")[len("order_no,timeout,qty\n"):])
	old := maxEntries
	maxEntries = rows / 5
	t.Cleanup(func() { maxEntries = old })
	require.Equal(t, fmt.Sprintf(`orders.csv:%d: column order_no: order_no "A-77" occurs in line 78 already; each order needs its own`, rows+2), refusals(t, f))
	require.Greater(t, int(f.repeated.shares), 4)
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
