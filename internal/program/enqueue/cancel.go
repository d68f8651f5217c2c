package enqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"orderpost/internal/books"
	"orderpost/internal/journal"
	"orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func (b *batchCommands) cancel() *cobra.Command {
	cmd := b.flags(&cobra.Command{
		Use:   "cancel BATCH|ORDER_NO",
		Short: "Withdraw orders that no worker has been given",
		Long: "cancel withdraws the orders of an import, or one order. It leaves orders that a worker has been given:\n" +
			"they may have been posted. While it runs, workers get no new orders. It may be interrupted and run\n" +
			"again. An import that still runs stops.\n\n" +
			"Exit code 3: nothing was withdrawn, or a worker had been given some of the orders.",
		Example: "  enqueue cancel march --dry-run\n  enqueue cancel march\n  enqueue cancel A-100",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.withQueue(cmd.Context(), true, func(q *queue.Queue) error { return b.withdraw(cmd, q, args[0]) })
		},
	}, "cancel")
	b.person.Register(cmd, b.environ)
	cmd.Flags().BoolVar(&b.dryRun, "dry-run", false, "change nothing, say what would be withdrawn")
	return cmd
}

func (b *batchCommands) withdraw(cmd *cobra.Command, q *queue.Queue, name string) error {
	imp, err := books.ReadImport(cmd.Context(), q, name)
	if err != nil {
		return err
	}
	pending, about := books.PendingOfOrder, journal.About{Kind: journal.Cancel, OrderNo: name}
	if imp != nil {
		pending, about = books.PendingOfBatch, journal.About{Kind: journal.Cancel, Batch: name}
	}
	if b.dryRun {
		c, err := q.WouldCancel(cmd.Context(), pending(cmd.Context(), q, name))
		return b.cancelled(name, c, err)
	}
	return b.person.Act(cmd, q, about, journal.Always, func(ctx context.Context) (map[string]int, error) {
		cancel := books.CancelOrder
		if imp != nil {
			cancel = books.CancelBatch
		}
		c, err := cancel(ctx, q, name, b.person.Actor().Name)
		return map[string]int{"cancelled": c.Withdrawn, "started": c.Started}, b.cancelled(name, c, err)
	})
}

// cancelled prints what was withdrawn, or would be, and returns the command's
// error.
func (b *batchCommands) cancelled(name string, c settle.Cancelled, err error) error {
	b.printCancelled(c)
	switch {
	case err != nil:
		return err
	case c.Withdrawn+c.Started == 0:
		return &program.ExitError{Code: program.ExitPartial, Err: fmt.Errorf("nothing is pending of %s", name)}
	case c.Started > 0:
		return &program.ExitError{Code: program.ExitPartial, Err: errors.New("some orders had been started; see their outcomes")}
	}
	return nil
}

func (b *batchCommands) printCancelled(c settle.Cancelled) {
	switch {
	case b.json && b.dryRun:
		encodeJSON(b.stdout, struct {
			DryRun bool `json:"dry_run"`
			settle.Cancelled
		}{true, c})
	case b.json:
		encodeJSON(b.stdout, c)
	case b.dryRun:
		_, _ = fmt.Fprintf(b.stdout, "%8d would be cancelled\n%8d started before, would be left to their workers\n", c.Withdrawn, c.Started)
	default:
		_, _ = fmt.Fprintf(b.stdout, "%8d cancelled\n%8d started before, left to their workers\n", c.Withdrawn, c.Started)
	}
}
