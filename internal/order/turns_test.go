package order

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTurns(t *testing.T) {
	a, b, small := LaneImport{"bulk", "a"}, LaneImport{"bulk", "b"}, LaneImport{"bulk", "small"}
	shop := LaneImport{"shop", "-"}
	for name, c := range map[string]struct {
		n       int
		waiting map[LaneImport]int
		weights map[string]int
		want    map[LaneImport]int
	}{
		"nothing waits":            {5, nil, nil, map[LaneImport]int{}},
		"one import takes all":     {5, map[LaneImport]int{a: 9}, nil, map[LaneImport]int{a: 5}},
		"no more than waits":       {5, map[LaneImport]int{a: 2}, nil, map[LaneImport]int{a: 2}},
		"imports take equal turns": {6, map[LaneImport]int{a: 9, b: 9, small: 1}, nil, map[LaneImport]int{a: 3, b: 2, small: 1}},
		"lanes share by weight":    {8, map[LaneImport]int{a: 99, shop: 99}, map[string]int{"shop": 3}, map[LaneImport]int{a: 2, shop: 6}},
		"lanes without a weight share one turn": {8, map[LaneImport]int{a: 99, shop: 99, {"l1", "-"}: 99, {"l2", "-"}: 99, {"l3", "-"}: 99}, nil,
			map[LaneImport]int{a: 4, shop: 1, {"l1", "-"}: 1, {"l2", "-"}: 1, {"l3", "-"}: 1}},
		"a lane without a weight has one":  {4, map[LaneImport]int{a: 99, shop: 99}, nil, map[LaneImport]int{a: 2, shop: 2}},
		"imports do not multiply a lane":   {8, map[LaneImport]int{a: 99, b: 99, small: 99, shop: 99}, nil, map[LaneImport]int{a: 2, b: 1, small: 1, shop: 4}},
		"an empty lane costs nothing":      {4, map[LaneImport]int{a: 99, shop: 0}, map[string]int{"shop": 9}, map[LaneImport]int{a: 4}},
		"a weight of zero is at least one": {4, map[LaneImport]int{a: 99, shop: 99}, map[string]int{"shop": 0}, map[LaneImport]int{a: 2, shop: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, new(Turns).Take(c.n, c.waiting, c.weights))
		})
	}
}

// Shares hold over many small takes, as the feeder makes them.
func TestTurnsAreFairOverManyTakes(t *testing.T) {
	turns, waiting, got := new(Turns), map[LaneImport]int{}, map[LaneImport]int{}
	for _, which := range []LaneImport{{"bulk", "a"}, {"bulk", "b"}, {"shop", "x"}} {
		waiting[which] = 100_000
	}
	for i := range 3001 {
		for which, n := range turns.Take(1+i%3, waiting, map[string]int{"shop": 2}) {
			got[which] += n
			waiting[which] -= n
		}
	}
	require.InDelta(t, got[LaneImport{"bulk", "a"}], got[LaneImport{"bulk", "b"}], 2)
	require.InDelta(t, 2*(got[LaneImport{"bulk", "a"}]+got[LaneImport{"bulk", "b"}]), got[LaneImport{"shop", "x"}], 3)
}

// A publisher that names thousands of lanes halves the turns of an import in BulkLane, and
// no more. A lane that is given a weight leaves the shared turns.
func TestManyLanesWithoutAWeightAreOne(t *testing.T) {
	turns, waiting, small := new(Turns), map[LaneImport]int{}, LaneImport{BulkLane, "small"}
	for i := range 3000 {
		waiting[LaneImport{fmt.Sprintf("lane-%d", i), "-"}] = 10
	}
	waiting[small] = 60
	got := turns.Take(120, waiting, nil)
	require.Equal(t, 60, got[small])
	weighted := LaneImport{"lane-7", "-"}
	got = turns.Take(90, waiting, map[string]int{"lane-7": 1})
	require.InDelta(t, 40, got[small], 1)
	require.Equal(t, 10, got[weighted])
}

// An import of a tenth of the size beside a large one is done after a fifth of
// the large one's orders, because it has every second turn.
func TestTurnsLetASmallImportPass(t *testing.T) {
	large, small := LaneImport{"bulk", "large"}, LaneImport{"bulk", "small"}
	turns, waiting := new(Turns), map[LaneImport]int{large: 1000}
	fed := 0
	for ; waiting[large] > 0; fed++ {
		if fed == 300 { // it arrives later
			waiting[small] = 100
		}
		for which, n := range turns.Take(1, waiting, nil) {
			if waiting[which] -= n; which == small && waiting[small] == 0 {
				require.InDelta(t, 500, fed, 2)
			}
		}
	}
	require.Equal(t, 1100, fed)
}

// A lane that was empty for long gets its share from now on, and no more.
func TestALaneThatComesBackGetsNoCredit(t *testing.T) {
	bulk, shop := LaneImport{"bulk", "a"}, LaneImport{"shop", "-"}
	turns := new(Turns)
	for range 1000 {
		turns.Take(10, map[LaneImport]int{bulk: 99}, nil)
	}
	got := turns.Take(10, map[LaneImport]int{bulk: 99, shop: 99}, nil)
	require.InDelta(t, 5, got[bulk], 1, fmt.Sprint(got))
}
