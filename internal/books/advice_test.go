package books

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func TestCommandsOfTheAdviceAreQuoted(t *testing.T) {
	for in, want := range map[string]string{"A-1": "A-1", "a/b": "a/b", "": "''", "-x": "'-x'", "it's": `'it'\''s'`, "a b": "'a b'", "*": "'*'"} {
		require.Equal(t, want, ShellWord(in))
	}
	require.Equal(t, `'A\*\?\\'`, exactly(`A*?\`))
}

// Nobody is told that an order was never enqueued while it may wait.
func TestAnUnknownOrderMayWait(t *testing.T) {
	require.Contains(t, Found{}.Advice("A 1")[0].Text, "never enqueued")
	step := Found{Waiting: 3}.Advice("A 1")[0]
	require.Contains(t, step.Text, "may be in the waiting room, which holds 3;")
	require.Equal(t, "enqueue order 'A 1'", step.Command)
}

// A replay that was cut off is finished only with the letter that the permission names.
func TestACutReplayIsFinishedWithItsOwnLetter(t *testing.T) {
	rec := &order.Record{OrderNo: "A-1", Word: order.OutcomeUnknown.String(), Allowed: true, AllowedFor: "replay:7"}
	require.EqualValues(t, 7, settle.LetterReplayed(rec.AllowedFor))
	for seq, want := range map[uint64]string{7: "Finish it", 8: "Ask the API's operator"} {
		require.Contains(t, Found{Entry: settle.Entry{Record: rec}, Letter: &settle.Letter{OrderNo: "A-1", Seq: seq}}.Advice("A-1")[0].Text, want)
	}
	require.Contains(t, Found{Entry: settle.Entry{Record: rec}}.Advice("A-1")[0].Text, "Ask the API's operator")
}
