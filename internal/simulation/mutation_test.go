package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// noticed gives, for each mutation, a schedule that notices it, and what it breaks there.
// `go run ./cmd/simulate --mutations --seed 1` finds them anew where the model has changed.
var noticed = map[Mutation]struct{ schedule, breaks string }{
	R1:        {"27", InvStays},
	R2:        {"1", InvStays},
	R3:        {"1", InvPark},
	R4:        {"77", InvLetters},
	R5:        {"534", InvLetters},
	R6:        {"1", InvTrue},
	R7:        {"166", InvOneClaim},
	R8:        {"6", InvPoison},
	R9:        {"1237", InvDelay},
	R10:       {"3859", InvStorage},
	Repost:    {"38", InvExplained},
	Marks:     {"1822", InvTrue},
	Barrier:   {"15", InvAcceptedOnce},
	Index:     {"390", InvReason},
	WallClock: {"7376", InvOneClaim},
	Monotonic: {"639", InvOneClaim},
	Page:      {"8401", InvTrue},
}

// Without a rule, an invariant breaks. With all rules, the same schedule breaks none.
func TestEveryMutationIsNoticed(t *testing.T) {
	for _, m := range Mutations() {
		t.Run(m.String(), func(t *testing.T) {
			want, known := noticed[m]
			require.True(t, known, "no schedule is known that notices it")
			schedule, err := ParseSchedule(want.schedule)
			require.NoError(t, err)
			found := Play(schedule, m, nil).Findings
			require.NotEmpty(t, found, "%s did not notice: %s", want.schedule, m.Meaning())
			require.Equal(t, want.breaks, found[0].Invariant)
			mustHold(t, schedule)
		})
	}
}

func TestMutationsAreReadByName(t *testing.T) {
	for _, m := range append(Mutations(), None, Reconnect, Begun) {
		got, err := ParseMutation(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseMutation("R99")
	require.ErrorContains(t, err, "R99")
}
