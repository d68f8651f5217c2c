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
	R1:      {22, InvStays},
	R2:      {1, InvAcceptedOnce},
	R3:      {15, InvPark},
	R4:      {29, InvLetters},
	R5:      {530, InvLetters},
	R6:      {8, InvTrue},
	R7:      {201, InvOneClaim},
	R8:      {3, InvPoison},
	R9:      {1528, InvDelay},
	R10:     {18402, InvStorage},
	Repost:  {1447, InvExplained},
	Marks:   {8430, InvPark},
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
			playOn(t, want.seed, replicated(want.seed, m))
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
