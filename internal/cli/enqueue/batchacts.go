package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func (b *batchCommands) cancel() *cobra.Command {
	cmd := b.flags(&cobra.Command{
		Use:   "cancel BATCH|ORDER_NO",
		Short: "Withdraw orders that are not posted yet",
		Long: "cancel withdraws the orders of an import, or one order. The workers, who own the orders, are told: whoever\n" +
			"comes to one of them does not post it. The fleet goes on meanwhile; it may also be held. Orders that an\n" +
			"attempt may have created are left to their workers. The command waits until the workers have settled what\n" +
			"they withdraw. It may be interrupted: what it told them stands. An import that still runs stops.\n\n" +
			"A name that is an import's and that of an order in the queue needs --import or --order.\n\n" +
			"Exit code 3: nothing was withdrawn, or some orders had been started, or are not settled yet.",
		Example: "  orderpost enqueue cancel march --dry-run\n  orderpost enqueue cancel march\n  orderpost enqueue cancel A-100",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.asImport && b.asOrder {
				return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--import and --order exclude each other")}
			}
			return b.withQueue(cmd.Context(), true, func(q *queue.Queue) error { return b.withdraw(cmd, q, args[0]) })
		},
	}, "cancel")
	b.person.Register(cmd, b.environ)
	cmd.Flags().BoolVar(&b.asImport, "import", false, "the name is an import's")
	cmd.Flags().BoolVar(&b.asOrder, "order", false, "the name is an order_no")
	cmd.Flags().BoolVar(&b.dryRun, "dry-run", false, "change nothing, say what would be withdrawn")
	return cmd
}

func (b *batchCommands) withdraw(cmd *cobra.Command, q *queue.Queue, name string) error {
	batch, err := b.meansImport(cmd.Context(), q, name)
	if err != nil {
		return err
	}
	would, about := imports.WouldCancelOrder, journal.About{Kind: journal.Cancel, OrderNo: name}
	if batch {
		would, about = imports.WouldCancelBatch, journal.About{Kind: journal.Cancel, Batch: name}
	}
	if b.dryRun {
		c, err := would(cmd.Context(), q, name)
		return b.cancelled(name, c, err)
	}
	return b.person.On(cmd).Act(cmd.Context(), q, about, journal.Always, func(ctx context.Context) (map[string]int, error) {
		cancel := imports.CancelOrder
		if batch {
			cancel = imports.CancelBatch
		}
		c, err := cancel(ctx, q, name, b.person.Actor().Name)
		return c.Counts(), b.cancelled(name, c, err)
	})
}

// meansImport reports whether name is an import's rather than an order_no.
func (b *batchCommands) meansImport(ctx context.Context, q *queue.Queue, name string) (bool, error) {
	if b.asImport || b.asOrder {
		return b.asImport, nil
	}
	batch, err := isImport(ctx, q, name)
	if err != nil || !batch {
		return false, err
	}
	found, err := q.Ledger.IsPending(ctx, name)
	if err == nil && !found {
		// The orders of an import are often named after it. To look for others would mean
		// to read all that waits.
		err = queue.EachWaiting(ctx, q, name, func(page []*settle.Message) error {
			found = found || slices.ContainsFunc(page, func(m *settle.Message) bool { return settle.WaitingOrderNo(m) == name })
			return nil
		})
	}
	if err == nil && found {
		err = &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s is the name of an import, and the order_no of an order in the queue: add --import or --order", name)}
	}
	return true, err
}

// cancelled prints what was withdrawn, or would be, and returns the command's
// error.
func (b *batchCommands) cancelled(name string, c imports.Cancelled, err error) error {
	b.printCancelled(c)
	switch {
	case err != nil:
		return err
	case c.Withdrawn+c.Started+c.Open == 0:
		return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("nothing is pending of %s", name)}
	case c.Left() != "":
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New(c.Left())}
	}
	return nil
}

func (b *batchCommands) printCancelled(c imports.Cancelled) {
	switch {
	case b.json && b.dryRun:
		_ = cli.PrintJSON(b.stdout, struct {
			DryRun bool `json:"dry_run"`
			imports.Cancelled
		}{true, c})
	case b.json:
		_ = cli.PrintJSON(b.stdout, c)
	case b.dryRun:
		_, _ = fmt.Fprintf(b.stdout, "%8d would be cancelled, unless a worker posts them first\n%8d may have been created, would be left to their workers\n", c.Withdrawn, c.Started)
	default:
		_, _ = fmt.Fprintf(b.stdout, "%8d cancelled\n%8d started before, left to their workers\n", c.Withdrawn, c.Started)
		if c.Open > 0 {
			_, _ = fmt.Fprintf(b.stdout, "%8d open: not settled yet\n", c.Open)
		}
	}
}

func (b *batchCommands) pause() *cobra.Command {
	return b.holding(&cobra.Command{
		Use:   "pause BATCH",
		Short: "Keep what waits of an import where it is",
		Long: "pause keeps the orders of an import that wait for their turn or their time where they are, until continue.\n" +
			"Other imports take their turns. Orders that are in the queue already are sent.\n\n" +
			"Exit code 3: nothing is known about the import.",
		Example: "  orderpost enqueue pause march",
	}, journal.Pause, journal.Always, func(cmd *cobra.Command, q *queue.Queue, batch string) error {
		if err := imports.PauseImport(cmd.Context(), q, batch, b.person.Actor().Name); err != nil {
			return err
		}
		return b.tellPaused(cmd.Context(), q, batch, true)
	})
}

func (b *batchCommands) resume() *cobra.Command {
	return b.holding(&cobra.Command{
		Use:     "continue BATCH",
		Aliases: []string{"resume"},
		Short:   "Let an import go on that was paused",
		Long: "continue ends a pause of an import: its orders that wait take their turns again. What was cancelled stays so.\n\n" +
			"Exit code 3: nothing is known about the import.",
		Example: "  orderpost enqueue continue march",
	}, journal.GoOn, nil, func(cmd *cobra.Command, q *queue.Queue, batch string) error {
		if _, err := imports.ResumeImport(cmd.Context(), q, batch); err != nil {
			return err
		}
		return b.tellPaused(cmd.Context(), q, batch, false)
	})
}

// holding completes a command that pauses an import or lets it go on. safer says
// whether it may act without the journal, see broker.Person.Act.
func (b *batchCommands) holding(cmd *cobra.Command, kind journal.Kind, safer func(context.Context) bool, do func(*cobra.Command, *queue.Queue, string) error) *cobra.Command {
	cmd.Args = cli.Named(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return b.withQueue(cmd.Context(), true, func(q *queue.Queue) error {
			if is, err := isImport(cmd.Context(), q, args[0]); err != nil || !is {
				return cmp.Or(err, unknownImport(args[0]))
			}
			return b.person.On(cmd).Act(cmd.Context(), q, journal.About{Kind: kind, Batch: args[0]}, safer, func(context.Context) (map[string]int, error) {
				return nil, do(cmd, q, args[0])
			})
		})
	}
	b.person.Register(cmd, b.environ)
	return b.flags(cmd, "pause")
}

// isImport reports whether a name is an import's: one of enqueue, or one of a producer
// of which something waits. "-" names what waits of no import.
func isImport(ctx context.Context, q *queue.Queue, name string) (bool, error) {
	if imp, err := imports.ReadImport(ctx, q, name); err != nil || imp != nil {
		return imp != nil, err
	}
	if waits, err := q.Waiting.StillWaits(ctx, imports.ImportToken(name), queue.ToTheEnd); err != nil || waits {
		return waits, err
	}
	hold, err := imports.ReadHold(ctx, q, name)
	return hold != nil, err
}

// paused is the JSON output of pause and resume.
type paused struct {
	Batch   string `json:"batch"`
	Paused  bool   `json:"paused"`
	Waiting uint64 `json:"waiting"`
}

func (b *batchCommands) tellPaused(ctx context.Context, q *queue.Queue, batch string, held bool) error {
	waiting, err := q.Waiting.Of(ctx, imports.ImportToken(batch))
	if err != nil {
		return err
	}
	switch {
	case b.json:
		_ = cli.PrintJSON(b.stdout, paused{batch, held, waiting})
	case held:
		_, _ = fmt.Fprintf(b.stdout, "%s: paused; %d orders wait. orderpost enqueue continue %[1]s lets them go on.\n", batch, waiting)
	default:
		_, _ = fmt.Fprintf(b.stdout, "%s: goes on; %d orders wait.\n", batch, waiting)
	}
	return nil
}
