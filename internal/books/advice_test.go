package books

import (
	"testing"

	"github.com/stretchr/testify/require"
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
