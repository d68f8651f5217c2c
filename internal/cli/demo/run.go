// Package demo runs everything in one process: an embedded JetStream, the sandbox API
// on loopback, the import of a CSV file, and a worker. It then balances the books
// against the sandbox's ledger.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"orderpost/internal/cli"
	"orderpost/internal/platform/duration"
)

// DefaultFile is the file to import if none is given.
const DefaultFile = "examples/orders.csv"

type options struct {
	file        string
	dir         string
	seed        uint64
	calm        bool
	json        bool
	concurrency int
	timeout     time.Duration
	logLevel    string
	columns     func() []string // the flags that are those of enqueue
	console     bool
	listen      string // the console's address
}

// Run runs the program and returns the exit code, which is 0 only if the books
// balance.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{}
	root := &cobra.Command{
		Use:   "demo [FILE.csv]",
		Short: "The whole job in one process, with faults, on real parts",
		Long: "demo starts an embedded JetStream and the sandbox API over TLS on loopback, imports a CSV file\n" +
			"(" + DefaultFile + " by default), works it off while the sandbox injects faults, and compares\n" +
			"every recorded outcome with what the sandbox really created.\n\n" +
			"With --console it keeps a web page open on all that: it prints a link that lets you in, and after the\n" +
			"file a few new orders come in each second until Ctrl-C. You can hold the fleet, replay dead letters and\n" +
			"balance the books there.\n\n" +
			"Its settings are its flags: ORDERPOST_* variables are not read.\n\n" +
			"Exit codes: 0 the books balance (with --console: it was stopped); 1 they do not, or something failed; 2 wrong usage; 130 interrupted.",
		Example: "  demo\n  demo orders.csv --seed 7 --json\n  demo --calm --data ./demo-data\n  demo --console",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			o.file = DefaultFile
			if len(files) == 1 {
				o.file = files[0]
			}
			return run(cmd.Context(), o, environ, stdout, stderr)
		},
	}
	f := root.Flags()
	f.StringVar(&o.dir, "data", "", "keep the broker's data in this folder (default: a temporary one, removed at the end)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the sandbox's faults")
	f.BoolVar(&o.calm, "calm", false, "inject no faults")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.IntVar(&o.concurrency, "concurrency", 64, "orders in flight at the same time")
	o.timeout = 2 * time.Minute
	f.Var((*duration.Value)(&o.timeout), "timeout", "give up after this time")
	f.StringVar(&o.logLevel, "log-level", "error", "level of the worker's log on stderr: debug, info, warn or error")
	f.BoolVar(&o.console, "console", false, "keep a web page open, with new orders until Ctrl-C")
	f.StringVar(&o.listen, "listen", "127.0.0.1:9465", "address of the page (--console); only loopback")
	o.columns = registerColumns(f)
	cli.CompleteFiles(root)
	_ = root.MarkFlagDirname("data") // the flag exists
	return cli.Execute(ctx, root, args, stdin, stdout, stderr)
}

func run(ctx context.Context, o *options, environ map[string]string, stdout, stderr io.Writer) error {
	if o.console && o.json {
		return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--json: with --console there is no summary; the page shows the same")}
	}
	if !o.console { // which ends with ctx
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done within %s (--timeout)", o.timeout))
		defer cancel()
	}
	st, err := setUp(ctx, o, environ, stderr)
	if err != nil {
		return err
	}
	defer st.tearDown()
	if o.console {
		return st.live(ctx, stderr)
	}
	summary, err := st.perform(ctx, stderr)
	if err != nil {
		return err
	}
	if o.json {
		if err := cli.PrintReport(stdout, summary); err != nil {
			return err
		}
	} else {
		summary.print(stdout)
	}
	if !summary.Balanced {
		return errors.New("the books do not balance")
	}
	return nil
}

// registerColumns adds the flags of enqueue that say what the columns of a file mean.
// The function that it returns gives those that were set, for enqueue.
func registerColumns(f *pflag.FlagSet) func() []string {
	usage := []struct{ name, usage string }{
		{"type", "`NAME=TYPE` of a field, as in orderpost enqueue (repeatable)"},
		{"rename", "`COLUMN=NAME`: the field's name of a column (repeatable)"},
		{"set", "`NAME=VALUE`: a field that every order has (repeatable)"},
		{"accept", "`NAME=CODE`: cells that the check asks about are right (repeatable)"},
		{"order-no-template", "`text` with {batch} and {row} that makes order numbers"},
	}
	given := make([][]string, len(usage))
	for i, u := range usage {
		f.StringArrayVar(&given[i], u.name, nil, u.usage)
	}
	return func() (args []string) {
		for i, u := range usage {
			for _, value := range given[i] {
				args = append(args, "--"+u.name+"="+value)
			}
		}
		return args
	}
}
