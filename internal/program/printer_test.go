package program

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrinter: text in pieces of any size reads as the whole would.
func TestPrinter(t *testing.T) {
	const text = "a;Käse 😀\u009b;\x1b[2J\r\nover\rwrite\xff;x\n"
	for n := 1; n < len(text); n++ {
		var out bytes.Buffer
		p := &printer{w: &out}
		for rest := text; rest != ""; {
			piece := rest[:min(n, len(rest))]
			rest = rest[len(piece):]
			written, err := p.Write([]byte(piece))
			require.NoError(t, err)
			require.Equal(t, len(piece), written)
		}
		require.Equal(t, Printable(text), out.String(), "pieces of %d", n)
	}
	var out strings.Builder
	require.Same(t, &out, ForTerminal(&out), "a file or a pipe gets every byte")
}
