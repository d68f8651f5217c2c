package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// noticed gives, for each mutation, the first schedule after seed 1 that
// notices it, and what it breaks there. `go run ./cmd/simulate --mutations --seed 1`
// finds them anew where the model has changed.
var noticed = map[Mutation]struct {
	seed   uint64
	breaks string
}{
	R1:      {35, InvStays},
	R2:      {1, InvOneOutcome},
	R3:      {15, InvPark},
	R4:      {65, InvLetters},
	R5:      {1327, InvLetters},
	R6:      {8, InvTrue},
	R7:      {62, InvOneClaim},
	R8:      {4, InvPoison},
	R9:      {291, InvDelay},
	R10:     {5465, InvStorage},
	Repost:  {334, InvExplained},
	Marks:   {7597, InvTrue},
	Barrier: {581, InvAcceptedOnce},
}

// Without a rule, an invariant breaks. With all rules, the same schedule breaks none.
func TestEveryMutationIsNoticed(t *testing.T) {
	for _, m := range Mutations() {
		t.Run(m.String(), func(t *testing.T) {
			want, known := noticed[m]
			require.True(t, known, "no schedule is known that notices it")
			found := Run(want.seed, m, nil).Findings
			require.NotEmpty(t, found, "seed %d did not notice: %s", want.seed, m.Meaning())
			require.Equal(t, want.breaks, found[0].Invariant)
			mustHold(t, Schedule{Seed: want.seed})
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
