package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The seed alone decides what a search plays and reaches, whatever the number of
// schedules that run at once.
func TestASearchFollowsFromItsSeed(t *testing.T) {
	search := Search{Seed: 5, Schedules: 600, Parallel: 1}
	first := search.Run(t.Context())
	search.Parallel = 3
	again := search.Run(t.Context())
	require.Equal(t, first.Counts, again.Counts)
	require.Equal(t, first.Reached, again.Reached)
	require.Positive(t, first.Reached.Count())
	search.Seed = 6
	require.NotEqual(t, first.Counts, search.Run(t.Context()).Counts)
}

// What a search printed of a schedule that broke, whole or short, repeats it.
func TestABrokenScheduleIsRepeatedFromItsText(t *testing.T) {
	s := Search{Seed: 9, Schedules: 300, Mutation: R2, Parallel: 1, Most: 3}.Run(t.Context())
	require.Len(t, s.Failed, 3)
	for _, r := range s.Failed {
		short := Shrink(r.Schedule, R2, 200)
		require.NotEmpty(t, short.Schedule.Edits)
		for _, r := range []Result{r, short} {
			again, err := ParseSchedule(r.Schedule.String())
			require.NoError(t, err)
			require.Equal(t, r.Findings, Play(again, R2, nil).Findings)
		}
	}
}
