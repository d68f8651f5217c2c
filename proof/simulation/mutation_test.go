package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/proof/oracle"
)

// noticed gives, for each mutation, a schedule that notices it, and what it breaks there.
// `go run ./proof/cmd/simulate --mutations --seed 1` finds them anew where the model has changed.
var noticed = map[Mutation]struct{ schedule, breaks string }{
	R1:        {"30", oracle.Stays},
	R2:        {"1", oracle.AcceptedOnce},
	R3:        {"1", oracle.Park},
	R4:        {"1", oracle.Letters},
	R5:        {"7", oracle.Letters},
	R6:        {"3", oracle.Own},
	R7:        {"3", oracle.OneClaim},
	R8:        {"27", oracle.Poison},
	R9:        {"1522", oracle.Delay},
	R10:       {"1597", oracle.Storage},
	Repost:    {"15", oracle.Explained},
	Marks:     {"127", oracle.Park},
	Barrier:   {"192", oracle.AcceptedOnce},
	Index:     {"4373", oracle.AcceptedOnce},
	WallClock: {"281", oracle.OneClaim},
	Monotonic: {"259", oracle.OneClaim},
	Page:      {"4075", oracle.Own},
	Late:      {"152", oracle.OneClaim},
	Arrival:   {"19328", oracle.OneClaim},
	Look:      {"99561", oracle.AcceptedOnce},
	Stamps:    {"1860", oracle.Stamped},
	Opened:    {"9662768", oracle.Storage},
	R13:       {"1", oracle.Moved},
	Moved:     {"2", oracle.Moved},
	Kept:      {"262", oracle.True},
	Purge:     {"280", oracle.Moved},
	Floor:     {"3", oracle.OneOutcome},
	Certain:   {"1", oracle.OneOutcome},
	Withdrawn: {"101", oracle.Cancelled},
	Hidden:    {"5", oracle.Letters},
	Sweep:     {"17", oracle.Letters},
	Trust:     {"10", oracle.OneOutcome},
	Overdue:   {"15", oracle.Settled},
	Delays:    {"15", oracle.Settled},
	Body:      {"corrections:217", oracle.True},
	Time:      {"12", oracle.AckLast},

	Absent:     {"1790", oracle.True},
	Quarantine: {"2052", oracle.True},
	Across:     {"39053", oracle.True},
	Asked:      {"11", oracle.Own},
	Number:     {"14000000001341213", oracle.OneClaim},
	Taken:      {"15400000000082337", oracle.Letters},
	Word:       {"16000000001625170", oracle.Own},
}

// Without a rule, an invariant breaks. With all rules, the same schedule breaks none.
func TestEveryMutationIsNoticed(t *testing.T) {
	for _, m := range append(Mutations(), Opened, Body, Number, Taken, Word) {
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
	for _, m := range append(append(Mutations(), RareMutations()...), None) {
		got, err := ParseMutation(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseMutation("R99")
	require.ErrorContains(t, err, "R99")
}
