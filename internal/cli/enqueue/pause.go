package enqueue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/journal"
	"orderpost/internal/queue"
)

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
