// Package deadletter is the deadletter program, which lists, shows, exports, replays,
// resolves and drops dead letters, audits the books, and shows the journal.
package deadletter

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/cli/service"
	"orderpost/internal/queue"
)

// surroundings holds what every command of the program needs.
type surroundings struct {
	environ map[string]string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, NewCommand(environ, stdin, stdout, stderr), args, stdin, stdout, stderr)
}

// NewCommand returns the program's command.
func NewCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	s := &surroundings{environ, stdin, stdout, stderr}
	root := &cobra.Command{
		Use:   "deadletter COMMAND",
		Short: "Work off dead letters",
		Long: "deadletter is for orders that need a person: refused orders, and orders that the API may or may not\n" +
			"have created. Start with list. show says what happened to one order and what to do.\n\n" +
			"Without ORDERPOST_NATS_URL it finds the broker of the worker that runs in the data folder\n" +
			"(ORDERPOST_DATA_DIR), or opens the store that one left there.\n\n" +
			"Exit codes: 0 all done; 1 failed; 2 wrong usage or configuration; 3 done, but some letters\n" +
			"stayed; 4 broker out of reach; 130 interrupted.",
		Example: "  orderpost deadletter list --outcome unknown\n" +
			"  orderpost deadletter show A-100\n" +
			"  orderpost deadletter replay --outcome exhausted --since 2h --dry-run\n" +
			"  orderpost deadletter resolve A-100 --accepted --note 'seen in the back office'",
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(fmt.Errorf("no command given (see %s --help)", cmd.CommandPath()))
		},
	}
	cli.NoJSON(root, "it only says that a command is missing")
	show := lookup.NewCommand(environ, stdout, stderr)
	show.Use, show.Short = "show ORDER_NO", "Show one order: its attempts, what they mean, and what to do next"
	show.Long = "show prints the result, the dead letter, each attempt of the last submission, and what to do now.\n\nExit code 3: nothing is known about it."
	show.Example = "  orderpost deadletter show A-100"
	root.AddCommand(show, NewAuditCommand(environ, stdin, stdout, stderr), NewJournalCommand(environ, stdin, stdout, stderr))
	for again, commands := range map[string][]*cobra.Command{
		broker.AgainOutput: {newListCommand(s), newExportCommand(s)},
		broker.AgainOrders: {newReplayCommand(s), newLookupCommand(s), newDropCommand(s)},
		broker.AgainWrite:  {newResolveCommand(s)},
	} {
		for _, cmd := range commands {
			root.AddCommand(broker.Patient(cmd, s.environ, again))
		}
	}
	cli.WarnUnknown(root, s.environ, cli.Settings(service.Config{}))
	return root
}

// open connects to the streams. close is never nil.
func (s *surroundings) open(ctx context.Context) (*queue.Queue, func(), error) {
	return broker.Connect(ctx, s.environ, broker.Options{Name: "deadletter", StartStopped: true, Stderr: s.stderr})
}

func usage(err error) error { return &cli.ExitError{Code: cli.ExitUsage, Err: err} }

func partial(format string, args ...any) error {
	return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf(format, args...)}
}

// say prints a line. It ignores errors: Guard reports them.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
