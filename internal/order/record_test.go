package order

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordsOfEveryKindSurviveStorage(t *testing.T) {
	for _, want := range recordKinds("i1", epoch, 2) {
		data, err := json.Marshal(want)
		require.NoError(t, err)
		var got Record
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, want, got)
		require.Equal(t, want.Outcome(), got.Outcome())
	}
}

func TestAnUnknownWordIsNoOutcome(t *testing.T) {
	r := Record{Word: "teleported"}
	require.Equal(t, OutcomeNone, r.Outcome())
	require.NotEqual(t, Retrying, r.Word, "and no note either: readers tell the two apart")
	var nobody *Record
	require.Equal(t, OutcomeNone, nobody.Outcome())
}

func TestSettingAnOutcomeEndsTheNote(t *testing.T) {
	r := Record{Word: Retrying, Note: NoteDelayed, NotBefore: epoch}
	r.SetOutcome(OutcomeRejected)
	require.Equal(t, "rejected", r.Word)
	require.Equal(t, NoteNone, r.Note)
	require.True(t, r.NotBefore.IsZero())
	r.SetOutcome(OutcomeNone)
	require.Equal(t, Retrying, r.Word)
}
