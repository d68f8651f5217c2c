package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

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
		err = &ExitError{Code: ExitInterrupted, Err: interrupted(err)}
	}
	PrintError(stderr, root.Name(), err)
	return ExitCode(err)
}

// interrupted says it in the user's words; what was interrupted stays in it,
// where err knows more than that.
func interrupted(err error) error {
	what := strings.TrimSuffix(err.Error(), ": "+context.Canceled.Error())
	switch {
	case !errors.Is(err, context.Canceled):
		return err
	case what == context.Canceled.Error():
		return errors.New("interrupted")
	default:
		return fmt.Errorf("interrupted: %s", what)
	}
}
