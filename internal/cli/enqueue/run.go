// Package enqueue is the enqueue program, which imports files into the queue.
package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/cli/service"
)

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, NewCommand(environ, stdin, stdout, stderr), args, stdin, stdout, stderr)
}

// NewCommand returns the program's command.
func NewCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	o := &importOptions{}
	root := &cobra.Command{
		Use:   "enqueue FILE...",
		Short: "Put orders into the queue",
		Long:  longHelp,
		Example: "  orderpost enqueue orders.csv\n" +
			"  orderpost enqueue orders.csv --wait --results out.csv\n" +
			"  orderpost enqueue orders.csv --dry-run --type qty=int --rename Artikel=sku\n" +
			"  orderpost enqueue orders.csv.gz --skip-invalid\n" +
			"  psql -c '...' --csv | orderpost enqueue - --source march.csv",
		Args: cli.Named(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			err := o.run(cmd, files, environ, stdin, stdout, stderr)
			if meant := cli.DidYouMean(cmd, files[0]); errors.Is(err, os.ErrNotExist) && meant != "" {
				err = &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%w%s", err, meant)}
			}
			return err
		},
	}
	o.register(root, environ)
	broker.Patient(root, environ, "; rows that are stored are recognised, and nothing is enqueued twice")
	b := &batchCommands{environ: environ, stdout: stdout, stderr: stderr, line: newStatusLine(stderr), source: source{stdin: stdin, max: defaultMaxStdin << 20}}
	root.AddCommand(b.all()...)
	root.AddCommand(lookup.NewCommand(environ, stdout, stderr), NewSignCommand(environ, stdin, stdout))
	cli.WarnUnknown(root, environ, cli.Settings(service.Config{}))
	return root
}

const longHelp = `enqueue imports files of orders: CSV or a sheet of a workbook (.xlsx), whose first row names the fields of the
orders, one of them order_no; or NDJSON, one order a line. CSV and NDJSON may be packed with gzip or zstd. FILE - is
standard input. timeout is a whole number, every other column is text: nothing is guessed, leading zeros stay. A type
can stand in the header (qty:int), dots in names nest objects (customer.name).

The whole file is checked before anything is enqueued; a bad row is named by file and line, or by sheet and cell. The same file
imported again enqueues nothing twice, also days later: orders that are known are recognised by order_no and
content, and their outcomes are told. An interrupted import goes on where it stopped.

Without ORDERPOST_NATS_URL it finds the broker of the worker that runs in the data folder (ORDERPOST_DATA_DIR).

Exit codes: 0 every row is in the queue, or accepted; 1 failed; 2 wrong usage or configuration; 3 bad rows, or
rows or orders that did not make it; 4 broker out of reach; 130 interrupted.`
