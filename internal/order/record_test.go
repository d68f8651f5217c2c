package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnknownWordIsNoOutcome(t *testing.T) {
	r := Record{Word: "teleported"}
	require.Equal(t, OutcomeNone, r.Outcome())
	require.NotEqual(t, Retrying, r.Word, "and no note either: readers tell the two apart")
	var nobody *Record
	require.Equal(t, OutcomeNone, nobody.Outcome())
}
