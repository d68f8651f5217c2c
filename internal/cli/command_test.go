package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestCompletionShowsNoBackticks: they are marks for the help alone.
func TestCompletionShowsNoBackticks(t *testing.T) {
	says := func(args ...string) string {
		root := &cobra.Command{Use: "orderpost"}
		sub := &cobra.Command{Use: "hold", RunE: func(*cobra.Command, []string) error { return nil }}
		sub.Flags().Duration("wait", 0, "wait for `duration` if the broker goes away")
		root.AddCommand(sub)
		var out bytes.Buffer
		require.Equal(t, ExitDone, Execute(t.Context(), root, args, nil, &out, &out))
		return out.String()
	}
	require.Contains(t, says("__complete", "hold", "--"), "--wait\twait for duration if the broker goes away\n")
	require.Contains(t, says("hold", "--help"), "--wait duration   wait for duration if")
}
