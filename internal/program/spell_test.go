package program_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
)

// TestSpell: the same text, from the program by itself and from one that
// contains it.
func TestSpell(t *testing.T) {
	tree := func() *cobra.Command {
		worker := &cobra.Command{Use: "worker FILE | worker COMMAND", Args: cobra.ArbitraryArgs,
			Example: "  worker\n  A=b worker adopt\n  cat x | worker - --worker name", Long: "Then worker hold, or worker adopted.", Run: func(*cobra.Command, []string) {}}
		worker.AddCommand(&cobra.Command{Use: "ask FILE | --all", Run: func(*cobra.Command, []string) {}})
		for _, name := range []string{"adopt", "hold"} {
			worker.AddCommand(&cobra.Command{Use: name, RunE: func(cmd *cobra.Command, _ []string) error {
				_, _ = cmd.OutOrStdout().Write([]byte(program.Spell(cmd.Context(), "see worker hold")))
				return errors.New("run: worker adopt, then cmd/worker")
			}})
		}
		return worker
	}
	run := func(root *cobra.Command, args ...string) (out, errOut string) {
		var o, e bytes.Buffer
		program.Execute(t.Context(), root, args, nil, &o, &e)
		return o.String(), e.String()
	}
	joined := func() *cobra.Command {
		root := &cobra.Command{Use: "one"}
		root.AddCommand(tree(), &cobra.Command{Use: "hold", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "adopt", Short: "Another one", Run: func(*cobra.Command, []string) {}})
		return root
	}
	out, errOut := run(tree(), "adopt")
	require.Equal(t, "see worker hold", out)
	require.Equal(t, "worker: run: worker adopt, then cmd/worker\n", errOut)
	out, errOut = run(joined(), "worker", "adopt")
	require.Equal(t, "see one hold", out)
	require.Equal(t, "one: run: one worker adopt, then one worker\n", errOut)
	out, _ = run(joined(), "worker", "--help")
	require.Contains(t, out, "Then one hold, or worker adopted.\n")
	require.Contains(t, out, "\n  one worker\n  A=b one worker adopt\n  cat x | one worker - --worker name\n")
	require.Contains(t, out, "\n  one worker FILE | one worker COMMAND")
	out, _ = run(joined(), "worker", "ask", "--help")
	require.Contains(t, out, "\n  one worker ask FILE | --all [flags]", "an alternative of a command's arguments is no command")
}
