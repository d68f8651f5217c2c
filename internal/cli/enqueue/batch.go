package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/approval"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// batchCommands are the commands about earlier imports.
type batchCommands struct {
	environ        map[string]string
	stdout, stderr io.Writer
	json, quiet    bool
	source         source
	dryRun         bool
	asImport       bool // what cancel is told to take a name for
	asOrder        bool
	person         broker.Person
	line           *statusLine
}

func (b *batchCommands) all() []*cobra.Command {
	commands := []*cobra.Command{
		broker.Patient(b.watch(), b.environ, broker.AgainFollow), broker.Patient(b.status(), b.environ, broker.AgainLook),
		broker.Patient(b.results(), b.environ, broker.AgainOutput), broker.Patient(b.cancel(), b.environ, broker.AgainOrders),
		broker.Patient(b.pause(), b.environ, broker.AgainWrite), broker.Patient(b.resume(), b.environ, broker.AgainWrite),
	}
	for _, cmd := range commands {
		cmd.ValidArgsFunction = broker.CompleteBatch(b.environ)
	}
	return commands
}

// withQueue opens the streams. With look it also opens a store that no worker has
// open.
func (b *batchCommands) withQueue(ctx context.Context, look bool, do func(*queue.Queue) error) error {
	var cfg broker.Config
	if err := errors.Join(cli.ReadEnv(&cfg, b.environ), cfg.Queue.Validate()); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	b.source.dir = broker.TempDir(b.environ, cfg.DataDir)
	q, done, err := broker.Open(ctx, cfg, broker.Options{Name: "enqueue", StartStopped: look, Stderr: b.stderr, Tell: b.line.tell})
	if err != nil {
		return err
	}
	defer done()
	return do(q)
}

func (b *batchCommands) flags(cmd *cobra.Command, schemas ...string) *cobra.Command {
	cli.JSONFlag(cmd, &b.json, schemas...)
	return cmd
}

func find(ctx context.Context, q *queue.Queue, batch string) (*imports.Import, error) {
	imp, err := imports.ReadImport(ctx, q, batch)
	if err == nil && imp == nil {
		err = unknownImport(batch)
	}
	return imp, err
}

func unknownImport(batch string) error {
	return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("nothing is known about an import %s; orderpost enqueue status lists them", batch)}
}

func (b *batchCommands) watch() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch BATCH",
		Short: "Follow an import until every order has its outcome",
		Long: "watch shows the progress of an import's orders, and what holds them up. Ctrl-C ends only the watching.\n\n" +
			"Exit code 3: not every order was accepted.",
		Example: "  orderpost enqueue watch march",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.withQueue(cmd.Context(), false, func(q *queue.Queue) error {
				imp, err := find(cmd.Context(), q, args[0])
				if err != nil {
					return err
				}
				m := newMeter(b.line, b.quiet)
				p, err := importer.Watch(cmd.Context(), q, imp, m.show)
				m.end()
				if err != nil {
					if cmd.Context().Err() != nil || errors.Is(err, queue.ErrUnreachable) {
						comeBack(b.stderr, imp.Batch)
					}
					return err
				}
				return b.printStatus(cmd.Context(), q, imp, p.Elapsed)
			})
		},
	}
	cmd.Flags().BoolVar(&b.quiet, "quiet", false, "print nothing before the end")
	return b.flags(cmd, "status")
}

func (b *batchCommands) status() *cobra.Command {
	return b.flags(&cobra.Command{
		Use:   "status [BATCH]",
		Short: "Show how far an import is, or list the imports",
		Long: "status counts an import's orders by outcome. Without BATCH it lists the known imports.\n" +
			"If no worker runs, it opens the store in the data folder.\n\n" +
			"Exit code 3: the import is not known, or not every order was accepted.",
		Example: "  orderpost enqueue status\n  orderpost enqueue status march --json",
		Args:    cli.Named(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.withQueue(cmd.Context(), true, func(q *queue.Queue) error {
				if len(args) == 0 {
					return b.list(cmd.Context(), q)
				}
				imp, err := find(cmd.Context(), q, args[0])
				if err != nil {
					return err
				}
				return b.printStatus(cmd.Context(), q, imp, 0)
			})
		},
	}, "status", "remembered")
}

func (b *batchCommands) list(ctx context.Context, q *queue.Queue) error {
	known, err := imports.Imports(ctx, q)
	if err != nil {
		return err
	}
	slices.SortFunc(known, func(a, b *imports.Import) int { return a.StartedAt.Compare(b.StartedAt) })
	fed, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return err
	}
	for _, imp := range known {
		token := imports.ImportToken(imp.Batch)
		hold := fed.Holds[token]
		delete(fed.Holds, token)
		if a := fed.Approvals.Imports[token]; hold == nil && a != nil && a.Why != "" {
			hold = fed.HoldOf(token)
		}
		if b.json {
			_ = cli.PrintJSON(b.stdout, remembered{imp, hold.By()})
			continue
		}
		_, _ = fmt.Fprintf(b.stdout, "%s  %s  %d of %d rows done  %s%s%s\n", imp.Batch, imp.StartedAt.Format("2006-01-02 15:04:05Z"), imp.Done, imp.Rows, cli.Printable(imp.File), cancelled(imp), held(hold))
	}
	if b.json {
		return nil
	}
	for _, token := range slices.Sorted(maps.Keys(fed.Holds)) {
		_, _ = fmt.Fprintf(b.stdout, "%s  a producer's%s\n", cli.Printable(imports.ImportName(token)), held(fed.Holds[token]))
	}
	return nil
}

// remembered is the JSON output of status without a name.
type remembered struct {
	*imports.Import
	PausedBy string `json:"paused_by,omitempty"`
}

func held(h *imports.Hold) string {
	if h == nil {
		return ""
	}
	if h.ForApproval != "" {
		return "  needs approval"
	}
	return "  paused by " + cli.Printable(h.By())
}

func cancelled(imp *imports.Import) string {
	if imp.CancelledAt.IsZero() {
		return ""
	}
	return "  cancelled " + imp.CancelledAt.Format("2006-01-02 15:04:05Z")
}

// importStatus is the JSON output of status.
type importStatus struct {
	*imports.Import
	Pending int `json:"pending"`
	// Waiting is how many of these are in the waiting room. PausedBy says who keeps them
	// there.
	Waiting  int    `json:"waiting,omitempty"`
	PausedBy string `json:"paused_by,omitempty"`
	// NothingSent is a sentence if no worker sends.
	NothingSent string         `json:"nothing_sent,omitempty"`
	Outcomes    map[string]int `json:"outcomes"`
}

func (b *batchCommands) printStatus(ctx context.Context, q *queue.Queue, imp *imports.Import, took time.Duration) error {
	counted, err := status.CountBatch(ctx, q, imp.Batch)
	if err != nil {
		return err
	}
	hold, err := imports.HeldBy(ctx, q, imp.Batch)
	if err != nil {
		return err
	}
	why := ""
	if counted.Pending > 0 {
		why = fleet.New(q).NothingSent(ctx)
	}
	if b.json {
		_ = cli.PrintJSON(b.stdout, importStatus{imp, counted.Pending, counted.Waiting, hold.By(), why, counted.Words()})
	} else {
		accepted := counted.Outcomes[order.OutcomeAccepted]
		_, _ = fmt.Fprintf(b.stdout, "%s: %s, %d of %d rows done%s\n", imp.Batch, cli.Printable(imp.File), imp.Done, imp.Rows, cancelled(imp))
		_, _ = fmt.Fprintf(b.stdout, "         of its orders: %d accepted, %d failed, %d open\n", accepted, counted.Total()-counted.Pending-accepted, counted.Pending)
		_, _ = fmt.Fprint(b.stdout, describeFates(imp))
		_, _ = fmt.Fprintln(b.stdout, "orders of this import, now:")
		for _, o := range order.Outcomes() {
			if n := counted.Outcomes[o]; n > 0 {
				_, _ = fmt.Fprintf(b.stdout, "%8d %s: %s\n", n, o, o.Meaning())
			}
		}
		if counted.Conflicts > 0 {
			_, _ = fmt.Fprintf(b.stdout, "%8d conflict: refused, since the order_no has an order already, with other fields\n", counted.Conflicts)
		}
		if counted.Pending > 0 {
			_, _ = fmt.Fprintf(b.stdout, "%8d pending\n", counted.Pending)
		}
		if counted.Waiting > 0 {
			_, _ = fmt.Fprintf(b.stdout, "%8d of these wait for their turn or their time\n", counted.Waiting)
		}
		if why != "" {
			_, _ = fmt.Fprintf(b.stdout, "         %s\n", cli.Printable(why))
		}
		if hold != nil {
			_, _ = fmt.Fprintf(b.stdout, "         %s\n", describeHold(hold, imp.Batch))
		}
		if n := elsewhere(imp, counted); n > 0 {
			others := min(n, counted.Elsewhere+imp.Counts[string(importer.AlreadyPending)])
			for _, part := range []struct {
				n    int
				what string
			}{{others, "sent by other submissions"}, {n - others, "without a result any more: it has expired or was lost"}} {
				if part.n > 0 {
					_, _ = fmt.Fprintf(b.stdout, "%8d %s\n", part.n, part.what)
				}
			}
			_, _ = fmt.Fprintf(b.stdout, "         orderpost enqueue results %s shows each row\n", imp.Batch)
		}
		if took > 0 {
			_, _ = fmt.Fprintf(b.stdout, "after %s\n", took.Round(100*time.Millisecond))
		}
	}
	if counted.Outcomes[order.OutcomeAccepted] < max(counted.Total(), imp.Rows-imp.Counts[string(importer.Settled(order.OutcomeAccepted))]) {
		return errNotAllAccepted
	}
	return nil
}

// describeHold says what keeps an import where it is, and what ends that.
func describeHold(hold *imports.Hold, batch string) string {
	says := cli.Printable(approval.Describe(hold, batch))
	if hold.ForApproval == "" {
		says += fmt.Sprintf("; orderpost enqueue continue %s lets them go on", status.ShellWord(batch))
	}
	return says
}

// elsewhere returns the number of rows that were dealt with, but have no order of this
// import in the streams.
func elsewhere(imp *imports.Import, counted *status.Counted) int {
	n := imp.Done - counted.Total() - imp.Counts[string(importer.Settled(order.OutcomeAccepted))]
	for fate, k := range imp.Counts {
		switch importer.Fate(fate) {
		case importer.Conflict, importer.Failed, importer.Invalid, importer.Forgotten:
			n -= k
		}
	}
	return n
}

func describeFates(imp *imports.Import) string {
	s := ""
	for _, fate := range importer.Fates() {
		if n := imp.Counts[string(fate)]; n > 0 {
			s += fmt.Sprintf("%8d %s\n", n, fate.Meaning())
		}
	}
	return s
}

func (b *batchCommands) results() *cobra.Command {
	var out, file string
	cmd := &cobra.Command{
		Use:   "results BATCH",
		Short: "Write every row of an imported file with its outcome",
		Long: "results reads the imported file again and writes each row, in the file's order, followed by the outcome\n" +
			"of its order. The file must be the imported one, byte for byte.\n\n" +
			"Exit code 3: not every row was accepted.",
		Example: "  orderpost enqueue results 5f2c9e0d1a3b4c5d --output out.csv",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.json && isStdout(out) {
				return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--json prints a summary on standard output, where the rows go; name a file for them by --output")}
			}
			return b.withQueue(cmd.Context(), true, func(q *queue.Queue) error {
				return b.writeResults(cmd.Context(), q, args[0], file, out)
			})
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "-", "the file to write, as a workbook if it ends in .xlsx, else as CSV; - is standard output")
	cmd.Flags().StringVar(&file, "file", "", "where the imported file is now (default: where it was)")
	cli.CompleteFiles(cmd, "output", "file")
	return b.flags(cmd, "outcomes")
}

func (b *batchCommands) writeResults(ctx context.Context, q *queue.Queue, batch, file, out string) error {
	imp, err := find(ctx, q, batch)
	if err != nil {
		return err
	}
	if file != "" {
		imp.File = file
	}
	content, _, closeFile, err := b.source.open(ctx, imp.File)
	if err != nil {
		return fmt.Errorf("the imported file is needed: %w (--file says where it is now)", err)
	}
	defer closeFile()
	f, err := importer.Reopen(content, imp, b.source.dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	checked, err := f.Check(ctx)
	if err != nil {
		return err
	}
	tally, err := output{out, b.stdout}.write(ctx, q, f, &checked, b.source.info(imp.File))
	if err != nil {
		return err
	}
	if b.json {
		_ = cli.PrintJSON(b.stdout, outcomes{Batch: imp.Batch, File: imp.File, Outcomes: tally, Results: out})
	} else {
		printTally(b.stderr, tally)
	}
	if !tally.AllAccepted() {
		return errNotAllAccepted
	}
	return nil
}
