package worker

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
	"orderpost/internal/program/broker"
	"orderpost/internal/queue"
)

const repairLong = `repair makes the streams that the broker has lost anew, empty, after it has shown which they are and asked.
What they held is lost then: restore it from a backup first, if there is one. Workers that are running go on
by themselves; they make the bucket of the fleet and the consumer anew without being asked.

Its NATS user must be allowed to make streams: the role worker, not operator.`

type repairCommand struct {
	environ map[string]string
	stderr  io.Writer
	decision
}

func newRepairCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	c := &repairCommand{environ: environ, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "repair",
		Short:   "Make streams anew that the broker has lost, and accept the loss",
		Long:    repairLong,
		Example: "  worker repair\n  worker repair --yes --by anna",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, environ)
	return cmd
}

// losses say what a missing stream means for the orders.
var losses = map[queue.Part]string{
	queue.PartIntents: "the orders that were pending are lost, and known to nobody but their producers: enqueue the same files again, orders with an outcome are recognised",
	queue.PartResults: "what became of earlier orders is not known any more: an order that is enqueued again is posted again",
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
	if !c.made(cmd.InOrStdin(), out, "Make them anew, empty?") {
		return errNotMade
	}
	made, err := q.Repair(ctx, c.by)
	if len(made) > 0 {
		err = errors.Join(err, c.done(cmd, repaired{true, lost, made, c.by}, "Made %s; %s decided it.", strings.Join(made, ", "), c.by))
	}
	return err
}

// repaired is what repair prints for programs.
type repaired struct {
	Changed bool     `json:"changed"`
	Missing []string `json:"missing,omitempty"`
	Made    []string `json:"made,omitempty"`
	By      string   `json:"by,omitempty"`
}
