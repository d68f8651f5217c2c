// Package enqueue is the enqueue program: files to intents.
package enqueue

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
)

// Run is the program without its process: it returns the exit code.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newCommand(environ, stdin, stdout, stderr)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = &program.ExitError{Code: program.ExitInterrupted, Err: err}
	}
	program.PrintError(stderr, "enqueue", err)
	return program.ExitCode(err)
}

func newCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	o := &importOptions{}
	root := &cobra.Command{
		Use:   "enqueue FILE... | enqueue COMMAND",
		Short: "Put orders into the queue",
		Long: "enqueue imports CSV files: the header row names the fields of the orders, one of them order_no.\n" +
			"timeout is a whole number, every other column is text. The whole file is checked before anything\n" +
			"is enqueued. The same file imported again enqueues nothing twice.\n\n" +
			"Without ORDERPOST_NATS_URL it finds the broker of the worker that runs in the data folder\n" +
			"(ORDERPOST_DATA_DIR). FILE - is standard input.\n\n" +
			"Exit codes: 0 every row is in the queue; 1 failed; 2 wrong usage or configuration;\n" +
			"3 bad rows, or rows that did not get in; 4 broker out of reach; 130 interrupted.",
		Example:       "  enqueue orders.csv\n  zcat orders.csv.gz | enqueue - --source march.csv",
		Args:          cobra.MinimumNArgs(1),
		SilenceErrors: true, SilenceUsage: true,
		Version: program.Version(),
		RunE: func(cmd *cobra.Command, files []string) error {
			return o.run(cmd.Context(), files, environ, stdin, stdout, stderr)
		},
	}
	o.register(root)
	root.AddCommand(newOrderCommand(environ, stdout, stderr), NewSignCommand(environ, stdin, stdout, stderr))
	program.UsageErrors(root)
	return root
}
