package program

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// Execute runs a program's command with its arguments and streams, says on
// stderr why it failed, and returns the exit code: ExitInterrupted where ctx
// ended meanwhile and the program did not finish.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	UsageErrors(root)
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, Version()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = &ExitError{Code: ExitInterrupted, Err: err}
	}
	PrintError(stderr, root.Name(), err)
	return ExitCode(err)
}
