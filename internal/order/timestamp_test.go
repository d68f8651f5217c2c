package order

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A clock that jumps to and fro never gives two attempts of an order one timestamp. Each
// is the present one unless the last one is just ahead, as long as rewinds are left.
func TestNoTwoTimestampsOfAnOrderAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, last := int64(1_767_225_600_000), int64(0)
		used := map[int64]bool{}
		places := rapid.SliceOfN(rapid.Int64Range(-3_600_000, 3_600_000), 1, 4).Draw(t, "places")
		for range rapid.IntRange(1, 80).Draw(t, "attempts") {
			reading := now + rapid.SampledFrom(places).Draw(t, "place") + rapid.SampledFrom([]int64{0, 0, 1, 50, 900, 30_000}).Draw(t, "wait")
			next := NextTimestamp(last, reading)
			if used[next] {
				t.Fatalf("%d is used twice", next)
			}
			if LaterTimestamp(last, next) != next || LaterTimestamp(next, last) != next {
				t.Fatalf("%d is not later than %d", next, last)
			}
			if ahead := next - reading; ahead < -rewindStep || Rewinds(next) < maxRewinds && ahead > MaxAhead.Milliseconds()+rewindStep {
				t.Fatalf("%d is not the present %d (after %d)", next, reading, last)
			}
			used[next], last = true, next
		}
	})
}

func TestATimestampIsThePresentTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() + 123
	ahead := now + 600_000
	for name, c := range map[string]struct{ last, now, want int64 }{
		"first":                     {0, now, now},
		"first, a digit that is 9":  {0, now + 6, now + 5},
		"later":                     {now - 1, now, now},
		"in the same millisecond":   {now, now, now + 1},
		"the next one is reserved":  {now + 5, now, now + 7},
		"a little ahead":            {now + 1500, now, now + 1501},
		"of a wrong clock":          {ahead, now, now - 14}, // …109
		"once more, a second later": {now - 14, now + 1000, now + 986},
		"once more, at once":        {now - 14, now, now + 86},
		"of a wrong clock again":    {ahead - 14, now, now - 4},     // …119
		"ten times":                 {ahead + 76, now, ahead + 176}, // …199: no digits are left
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, NextTimestamp(c.last, c.now)) })
	}
}

// What a delivery without a report may have used is left out, and the count of rewinds
// stays.
func TestSkippedTimestampsKeepTheirCount(t *testing.T) {
	for _, last := range []int64{1_767_225_600_000, 1_767_225_600_109, 1_767_225_600_199} {
		skipped := SkipTimestamps(last, 7)
		require.Equal(t, Rewinds(last), Rewinds(skipped))
		used := last
		for range 7 {
			used = NextTimestamp(used, 0+used)
		}
		require.LessOrEqual(t, used, skipped)
	}
}
