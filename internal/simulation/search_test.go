package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The seed alone decides what a search plays and reaches, whatever the number of
// schedules that run at once.
func TestAGuidedSearchFollowsFromItsSeed(t *testing.T) {
	search := Search{Seed: 5, Schedules: 600, Guided: true, Parallel: 1}
	first := search.Run(t.Context())
	search.Parallel = 3
	again := search.Run(t.Context())
	require.Equal(t, first.Counts, again.Counts)
	require.Equal(t, first.Coverage, again.Coverage)
	require.Equal(t, first.Variants, again.Variants)
	require.Positive(t, first.Variants)
	require.Positive(t, first.Coverage.States)
	require.Positive(t, first.Coverage.Strikes)
	require.Positive(t, first.Coverage.Pairs)
	require.Positive(t, first.LastTenth)
	search.Seed = 6
	require.NotEqual(t, first.Counts, search.Run(t.Context()).Counts)
}

// What a schedule of a guided search printed repeats it.
func TestAVariantIsRepeatedFromItsText(t *testing.T) {
	s := Search{Seed: 9, Schedules: 300, Guided: true, Mutation: R2, Parallel: 1, Most: 40}.Run(t.Context())
	require.NotEmpty(t, s.Failed)
	edited := 0
	for _, r := range s.Failed {
		edited += len(r.Schedule.Edits)
		again, err := ParseSchedule(r.Schedule.String())
		require.NoError(t, err)
		require.Equal(t, r.Findings, Play(again, R2, nil).Findings)
	}
	require.Positive(t, edited, "no variant broke")
}
