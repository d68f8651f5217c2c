package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestAddressSpace: a limit under which Go's runtime crashes is named before it does.
func TestAddressSpace(t *testing.T) {
	require.Empty(t, addressAdvice(addresses()), "this machine has none")
	require.Empty(t, addressAdvice(leastAddresses))
	says := addressAdvice(1953 << 20)
	for _, want := range []string{"1953 MiB", "ulimit -v", "exit code 2", "MemoryMax", "GOMEMLIMIT"} {
		require.Contains(t, says, want)
	}
	var errOut bytes.Buffer
	old := addressLimit
	t.Cleanup(func() { addressLimit = old })
	addressLimit = func() uint64 { return 2 << 30 }
	code := Execute(context.Background(), &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}, nil, nil, &errOut, &errOut)
	require.Equal(t, ExitDone, code)
	require.Equal(t, "x: "+addressAdvice(2<<30)+"\n", errOut.String())
}
