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
