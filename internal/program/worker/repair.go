package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/journal"
	"orderpost/internal/program"
	"orderpost/internal/program/broker"
	"orderpost/internal/queue"
)

const repairLong = `repair shows which streams the broker has lost, asks, and creates them again, empty. Their content is
then lost: restore it from a backup first, if there is one. Running workers go on by themselves. They create
the fleet's bucket and the consumer again without being asked.

The NATS user must be allowed to create streams: the role worker, not operator.`

type repairCommand struct {
	environ map[string]string
	stderr  io.Writer
	decision
}

func newRepairCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	c := &repairCommand{environ: environ, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "repair",
		Short:   "Create streams again that the broker has lost, and accept the loss",
		Long:    repairLong,
		Example: "  worker repair\n  worker repair --yes --by anna",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, environ)
	return cmd
}

// losses says what a missing stream means for the orders.
var losses = map[queue.Part]string{
	queue.PartIntents: "the pending orders are lost, and only their producers know them: enqueue the same files again, orders with an outcome are recognised",
	queue.PartResults: "the outcomes of earlier orders are lost: an order that is enqueued again is posted again",
	queue.PartWaiting: "the orders that waited for their turn or their time are lost, and only their producers know them: enqueue the same files again, orders with an outcome are recognised",
	queue.PartLetters: "the dead letters are lost; the results still say which orders failed",
}

func (c *repairCommand) run(cmd *cobra.Command) error {
	var cfg broker.Config
	if err := errors.Join(program.ReadEnv(&cfg, c.environ), cfg.Queue.Validate(), c.check(cmd.InOrStdin())); err != nil {
		return &program.ExitError{Code: program.ExitUsage, Err: err}
	}
	ctx, out := cmd.Context(), c.people(cmd)
	q, done, err := broker.Open(ctx, cfg, broker.Options{Name: "worker repair", StartStopped: true, Incomplete: true, Stderr: c.stderr})
	if err != nil {
		return err
	}
	defer done()
	parts, err := q.Inspect(ctx)
	if err != nil {
		return err
	}
	var lost []string
	for _, p := range parts {
		if p.Missing() && p.Precious() {
			lost = append(lost, p.Name)
			_, _ = fmt.Fprintf(out, "%s is missing: %s.\n", p.Name, losses[p.Part])
		}
	}
	if len(lost) == 0 {
		return c.done(cmd, repaired{}, "No stream is missing. Nothing was changed.")
	}
	_, _ = fmt.Fprintf(out, "The broker is %s: is it the right one?\n", queue.RedactURL(q.Server()))
	if !c.made(cmd.InOrStdin(), out, "Create them again, empty?") {
		return errNotMade
	}
	by, about := c.person.Name, journal.About{Kind: journal.Repair, Details: map[string]string{"missing": strings.Join(lost, ", ")}}
	return c.person.Act(cmd, q, about, nil, func(ctx context.Context) (map[string]int, error) {
		made, err := q.Repair(ctx, by)
		if len(made) > 0 {
			err = errors.Join(err, c.done(cmd, repaired{true, lost, made, by}, "Created %s; %s decided it.", strings.Join(made, ", "), by))
		}
		return map[string]int{"created": len(made)}, err
	})
}

// repaired is the JSON output of repair.
type repaired struct {
	Changed bool     `json:"changed"`
	Missing []string `json:"missing,omitempty"`
	Made    []string `json:"made,omitempty"`
	By      string   `json:"by,omitempty"`
}
