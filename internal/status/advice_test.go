package status

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func TestCommandsOfTheAdviceAreQuoted(t *testing.T) {
	for in, want := range map[string]string{"A-1": "A-1", "a/b": "a/b", "": "''", "-x": "'-x'", "it's": `'it'\''s'`, "a b": "'a b'", "*": "'*'",
		"ü": "'ü'", "a\u202eb": `$'a\xe2\x80\xaeb'`, "it's\n\\1": `$'it\'s\x0a\\1'`, "\xff": `$'\xff'`, "\u00a0": `$'\xc2\xa0'`, "\u200bA": `$'\xe2\x80\x8bA'`} {
		require.Equal(t, want, ShellWord(in))
	}
	require.Equal(t, `A\*\?\\`, Exactly(`A*?\`))
}

// TestCopiedCommandsNameTheOrder: a shell reads from the command exactly the order number,
// whatever that is, and the command has no character that a terminal would replace.
func TestCopiedCommandsNameTheOrder(t *testing.T) {
	for _, no := range []string{"A-1", "a b", "it's", "\u202e right to left \n\t\x7f", "-x", "$(id)", "`id`", "\\", "\x1b[31m", "x\u0301", "\u200b", "\xff", "a\u00a0b1", "!!", "'\n'"} {
		word := ShellWord(no)
		require.Equal(t, -1, strings.IndexFunc(word, hides), "%q", word)
		out, err := exec.Command("bash", "-c", "printf %s "+word).Output()
		require.NoError(t, err, word)
		require.Equal(t, no, string(out), word)
	}
	rec := &order.Record{Word: order.OutcomeUnknown.String()}
	for _, step := range (Found{Entry: settle.Entry{Record: rec}}).Advice("A\x001") {
		require.Empty(t, step.Command, "no argument can hold a zero byte")
	}
}

// Nobody is told that an order was never enqueued while it may wait.
func TestAnUnknownOrderMayWait(t *testing.T) {
	require.Contains(t, Found{}.Advice("A 1")[0].Text, "never enqueued")
	step := Found{Waiting: 3}.Advice("A 1")[0]
	require.Contains(t, step.Text, "may be in the waiting room, which holds 3;")
	require.Equal(t, "orderpost order 'A 1'", step.Command)
}

// A replay that was cut off is finished only with the letter that the permission names.
func TestACutReplayIsFinishedWithItsOwnLetter(t *testing.T) {
	rec := &order.Record{OrderNo: "A-1", Word: order.OutcomeUnknown.String(), AllowedFor: "replay:7"}
	require.EqualValues(t, 7, settle.LetterReplayed(rec.AllowedFor))
	for seq, want := range map[uint64]string{7: "Finish it", 8: "Ask the API's operator"} {
		require.Contains(t, Found{Entry: settle.Entry{Record: rec}, Letters: []*settle.Letter{{OrderNo: "A-1", Seq: seq}}}.Advice("A-1")[0].Text, want)
	}
	require.Contains(t, Found{Entry: settle.Entry{Record: rec}}.Advice("A-1")[0].Text, "Ask the API's operator")
}
