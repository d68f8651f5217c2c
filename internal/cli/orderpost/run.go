// Package orderpost is the program that contains worker, enqueue and deadletter. It
// has their most frequent commands at the top.
package orderpost

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/docs"
	"orderpost/internal/cli"
	"orderpost/internal/cli/backup"
	"orderpost/internal/cli/certify"
	"orderpost/internal/cli/console" // room: console
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/gateway" // room: gateway
	"orderpost/internal/cli/lookup"
	"orderpost/internal/cli/notify" // room: notify
	"orderpost/internal/cli/pending"
	"orderpost/internal/cli/reconcile"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/cli/watch" // room: folder
	"orderpost/internal/cli/worker"
	pages "orderpost/internal/console" // room: console
	"orderpost/internal/gateway/door"
	"orderpost/internal/gateway/fileimport" // room: gateway
)

// programs maps the names under which this program acts as another one, for example
// when a link starts it.
var programs = map[string]cli.RunFunc{"worker": runWorker, "enqueue": enqueue.Run, "deadletter": deadletter.Run}

func runWorker(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, worker.NewCommand(environ, stderr, files()), args, stdin, stdout, stderr)
}

// files opens what the worker's HTTP door does with files of orders.
func files() (open door.OpenFiles) {
	open = fileimport.Open // room: gateway
	return open
}

// Main returns the program for the name under which this process was started.
func Main() cli.RunFunc { return named(os.Args[0]) }

func named(arg0 string) cli.RunFunc {
	if run, link := programs[strings.TrimSuffix(filepath.Base(arg0), ".exe")]; link {
		return run
	}
	return Run
}

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, NewCommand(environ, stdin, stdout, stderr), args, stdin, stdout, stderr)
}

// NewCommand returns the program's command.
func NewCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "orderpost COMMAND",
		Short: "Submit orders in bulk to an HTTP API, and account for every one of them",
		Long: "orderpost takes orders from files to an HTTP API, through a queue that loses none and doubles none.\n" +
			"`orderpost worker` posts them, `orderpost enqueue FILE` brings them, `orderpost audit` balances the books.\n\n" +
			"Every command is set by environment variables (ORDERPOST_…); `orderpost worker --help` lists them. Without\n" +
			"ORDERPOST_NATS_URL they find the broker of the worker that runs in the data folder (ORDERPOST_DATA_DIR).\n\n" +
			"Started as worker, enqueue or deadletter, for example by a link, it acts as that program.\n\n" +
			"Exit codes: 0 all done; 1 failed; 2 wrong usage or configuration; 3 done, but some rows or orders did\n" +
			"not make it; 4 broker out of reach; 130 interrupted.",
		Example: "  ORDERPOST_API_URL=https://api.example.com ORDERPOST_API_KEY_FILE=key ORDERPOST_API_SECRET_FILE=secret orderpost worker\n" +
			"  orderpost enqueue orders.csv --wait --results out.csv\n" +
			"  orderpost order A-100\n" +
			"  orderpost hold --for 30m --note 'maintenance of the API'\n" +
			"  orderpost audit\n" +
			"  source <(orderpost completion bash)",
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("no command given (see %s --help)", cmd.CommandPath())}
		},
	}
	cli.NoJSON(root, "it only says that a command is missing")
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, cmd := range commands {
			cmd.GroupID = id
		}
		root.AddCommand(commands...)
	}
	joined := []*cobra.Command{worker.NewCommand(environ, stderr, files()), enqueue.NewCommand(environ, stdin, stdout, stderr),
		deadletter.NewCommand(environ, stdin, stdout, stderr)}
	group("programs", "Orders on their way:", slices.Concat(joined, []*cobra.Command{
		watch.NewCommand(environ, stderr), // room: folder
	})...)
	group("books", "Orders, and the books:", lookup.NewCommand(environ, stdout, stderr), pending.NewCommand(environ, stdout, stderr),
		deadletter.NewAuditCommand(environ, stdin, stdout, stderr), reconcile.NewCommand(environ, stdin, stdout, stderr), deadletter.NewJournalCommand(environ, stdin, stdout, stderr), deadletter.NewEraseCommand(environ, stdin, stdout, stderr), enqueue.NewSignCommand(environ, stdin, stdout))
	group("fleet", "All workers at once:", slices.Concat(worker.NewFleetCommands(environ, stderr), backup.NewCommands(environ, stderr))...)
	group("page", "For people without a terminal:", console.NewCommand(environ, stdin, stderr)) // room: console
	group("doors", "For programs:",
		gateway.NewCommand(environ, stderr),        // room: gateway
		notify.NewCommand(environ, stdout, stderr), // room: notify
	)
	group("tools", "Before the first order, the program itself, and shells:", certify.NewCommand(environ, stdin, stdout, stderr), newSchemaCommand(environ, stderr), newVersionCommand())
	root.SetCompletionCommandGroupID("tools")
	root.SetHelpCommand(newHelpCommand())
	root.SetHelpCommandGroupID("tools")
	hideTwins(root, joined)
	cli.WarnUnknown(root, environ, slices.Concat(cli.Settings(pool.Config{}),
		cli.Settings(pages.Config{}), // room: console
	), root.Name(), "schema")
	return root
}

// hideTwins hides the commands that are also at the top from the help of the contained
// programs. They still work there. The same name is not enough: one command may resume
// the fleet, and another an import.
func hideTwins(root *cobra.Command, joined []*cobra.Command) {
	for _, p := range joined {
		for _, sub := range p.Commands() {
			sub.Hidden = slices.ContainsFunc(root.Commands(), func(top *cobra.Command) bool {
				return top.Name() == sub.Name() && top.Short == sub.Short
			})
		}
	}
}

// newHelpCommand returns the command help. Beside the help of commands it prints the
// documents that the program carries, because a host with the package alone has no
// clone to read them in.
func newHelpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND... | DOCUMENT [SECTION]]",
		Short: "Show the help of a command, or a document such as the runbook",
		Long: "help prints the help of a command. With the name of a document it prints that document, and with a section's\n" +
			"title or the beginning of it, only that section. The documents are " + strings.Join(docs.Names(), ", ") + ".\n" +
			"A name that is both, such as console, is the command; console.md is the document.",
		Example: "  orderpost help enqueue status\n  orderpost help runbook KeyDenied\n  orderpost help rules | less",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
			if len(args) == 1 {
				found = docs.Sections(args[0])
			} else if len(args) == 0 {
				found = docs.Names()
				for _, sub := range cmd.Root().Commands() {
					if sub.IsAvailableCommand() {
						found = append(found, sub.Name())
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			meant, rest, err := cmd.Root().Find(args)
			if err == nil && (meant != cmd.Root() && len(rest) == 0 || len(args) == 0) {
				meant.InitDefaultHelpFlag()
				return meant.Help()
			}
			text, err := docs.Text(args[0], strings.Join(args[1:], " "))
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%w%s", err, cli.DidYouMean(cmd.Root(), args[0]))}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cli.NoJSON(cmd, "it prints texts for people")
	return cmd
}

// newVersionCommand prints what --version prints, and what the program was built with.
func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what the program was built with",
		Long: "version prints the version of this program with its commit, the Go release that built it, and the platform\n" +
			"that it was built for. `orderpost fleet` shows the versions of the workers that run.",
		Example: "  orderpost version\n  orderpost version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{cli.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "orderpost %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
	cli.JSONFlag(cmd, &asJSON, "version")
	return cmd
}
