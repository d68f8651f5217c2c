package cli

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

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, Käse 😀\tx\n": "plain, Käse 😀\tx\n", "\x1b[31mred\x07": `\u001b[31mred\u0007`, "a\u009bb": `a\u009bb`, "a\u202eb\u00ad": `a\u202eb\u00ad`,
		"bad\xff": `bad\xff`, "over\rwrite": `over\u000dwrite`, "line\r\n": "line\r\n", "\U000e0001": `\udb40\udc01`, "": "",
	} {
		require.Equal(t, want, Printable(in))
	}
}
