package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// TestColumns: the demo takes the flags that an import of a foreign file asks for.
func TestColumns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.csv")
	require.NoError(t, os.WriteFile(file, []byte("Order No,item\nA-1,pump\n"), 0o600))
	demo := func(args ...string) (int, string, string) {
		var out, says bytes.Buffer
		code := Run(t.Context(), append([]string{file, "--calm"}, args...), nil, nil, &out, &says)
		return code, out.String(), says.String()
	}
	code, _, says := demo()
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, says, "--rename 'Order No=order_no' takes that one")
	require.Contains(t, says, "demo: nothing was posted; mend the file, or say with flags what its columns mean (demo --help)")
	code, _, says = demo("--rename", "Order No=order_no")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, says, "--set timeout=30 gives every order the same one")
	code, out, says := demo("--rename", "Order No=order_no", "--set", "timeout=30")
	require.Equal(t, cli.ExitDone, code, says)
	require.Contains(t, out, "The books balance")
	require.Contains(t, out, "\ndead letters  0  orders that need a person\n")
}
