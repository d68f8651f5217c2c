package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli/broker"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
)

const repairLong = `repair shows which streams the broker has lost, asks, and creates them again, empty. Their content is
then lost: restore it from a backup first, if there is one. Running workers go on by themselves. If the fleet's
bucket was lost, its holds are, too: repair holds the fleet, until you resume it.

It also shows the streams that end before the place that they had reached: a damaged disk cut them off, or they
were restored from a backup. Workers post nothing until repair accepts the streams as they are.

And it finds an intent that is stored without an outcome, and that the broker delivers to nobody. It then has the
broker deliver all that is stored again: the workers pause for about ORDERPOST_ACK_WAIT, and an order that was
delivered before and has no outcome counts as possibly posted. --redeliver does that although no such intent was found,
where a broker holds back what is pending and workers wait idle.

The NATS user must be allowed to create streams: the role worker, not operator.`

type repairCommand struct {
	environ map[string]string
	stderr  io.Writer
	decision
	redeliver bool
}

func newRepairCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	c := &repairCommand{environ: environ, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "repair",
		Short:   "Create streams again that the broker has lost, accept where they end now, or deliver what is stranded",
		Long:    repairLong,
		Example: "  orderpost worker repair\n  orderpost worker repair --yes --by anna",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, environ)
	cmd.Flags().BoolVar(&c.redeliver, "redeliver", false, "have the broker deliver all that is stored again, also where no intent is stranded")
	return cmd
}

const bucketLost = "the fleet's holds, limit and lanes, the pauses of imports and what was approved are lost. The fleet is held afterwards: set them again, then run orderpost resume. " +
	"Workers with ORDERPOST_APPROVALS put that rule back; the receiver of webhooks may get again what is kept"

// losses says what a missing stream means for the orders.
var losses = map[queue.Part]string{
	queue.PartIntents: "the pending orders are lost, and only their producers know them: enqueue the same files again with another --batch; orders with an outcome are recognised",
	queue.PartResults: "the outcomes of earlier orders are lost: an order that is enqueued again is posted again, and no list shows their dead letters: save ORDERS_DEAD first if you need these",
	queue.PartWaiting: "the orders that waited for their turn or their time are lost, and only their producers know them: enqueue the same files again with another --batch; orders with an outcome are recognised",
	queue.PartFleet:   bucketLost,
	queue.PartLetters: "the dead letters are lost; the results still say which orders failed",
}

func (c *repairCommand) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), c.people(cmd)
	q, done, err := broker.Connect(ctx, c.environ, broker.Options{Name: "worker repair", StartStopped: true, Incomplete: true, Stderr: c.stderr}, c.check(cmd.InOrStdin()))
	if err != nil {
		return err
	}
	defer done()
	parts, err := q.Topology.Inspect(ctx)
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
	shrunk, err := c.shrunk(ctx, q, parts)
	if err != nil {
		return err
	}
	hold := slices.ContainsFunc(parts, func(p queue.PartState) bool { // the bucket, with its holds, is lost or older
		return p.Part == queue.PartFleet && (p.Missing() || slices.ContainsFunc(shrunk, func(l queue.Loss) bool { return l.Name == p.Name }))
	})
	var shorter []string
	for _, l := range shrunk {
		shorter = append(shorter, l.String())
		_, _ = fmt.Fprintf(out, "%s.\n", l)
	}
	if hold && len(lost) == 0 {
		_, _ = fmt.Fprintf(out, "Since then, %s.\n", bucketLost)
	}
	var stranded string
	if len(lost) == 0 {
		m, err := q.Trimmer.FirstStranded(ctx)
		if err != nil {
			return err
		}
		if m != nil {
			stranded = fmt.Sprintf("%s, message %d", m.Subject, m.Seq)
			_, _ = fmt.Fprintf(out, "An intent is stored without an outcome or its dead letter, and the broker delivers it to nobody: %s.\n", stranded)
		}
	}
	c.redeliver = c.redeliver || stranded != ""
	if len(lost)+len(shorter) == 0 && !c.redeliver {
		return tell(cmd, c.json, repaired{}, "No stream is missing, none lost its end, and no intent is stranded. Nothing was changed.")
	}
	_, _ = fmt.Fprintf(out, "The broker is %s: is it the right one?\n", queue.RedactURL(q.Conn.Server()))
	question := "Create them again, empty?"
	switch {
	case len(lost) > 0:
	case c.redeliver && len(shorter) > 0:
		question = "Accept the streams as they are, and deliver what is stored again?"
	case c.redeliver:
		question = "Deliver what is stored again?"
	default:
		question = "Accept the streams as they are?"
	}
	if !c.made(cmd.InOrStdin(), out, question) {
		return errNotMade
	}
	if slices.ContainsFunc(parts, func(p queue.PartState) bool { return p.Part == queue.PartJournal && p.Missing() }) {
		// Nothing is repaired without the journal, and no worker that could create it starts before the repair.
		if err := q.Topology.ReviveJournal(ctx); err != nil {
			return err
		}
	}
	details := make(map[string]string)
	if len(lost) > 0 {
		details["missing"] = strings.Join(lost, ", ")
	}
	if len(shorter) > 0 {
		details["accepted"] = strings.Join(shorter, "; ")
	}
	if c.redeliver {
		details["redeliver"] = cmp.Or(stranded, "all that is stored")
	}
	by, about := c.person.Actor().Name, journal.About{Kind: journal.Repair, Details: details}
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		made, err := q.Topology.MakeLost(ctx)
		if err == nil && c.redeliver {
			err = q.Topology.RemoveConsumer(ctx)
		}
		if err == nil && hold { // before workers go on
			err = fleet.New(q).SetHold(ctx, fleet.Hold{By: by, Reason: "the bucket was lost: set the limit, the lanes and the pauses of imports again, then resume", Since: time.Now().UTC()})
		}
		if err == nil {
			err = q.Extents.AcceptLosses(ctx, by, made)
		}
		switch {
		case len(made) > 0:
			err = errors.Join(err, tell(cmd, c.json, repaired{true, lost, made, shorter, "", by}, "Created %s; %s decided it.", strings.Join(made, ", "), by))
		case err == nil && c.redeliver:
			err = tell(cmd, c.json, repaired{true, nil, nil, shorter, stranded, by}, "The broker delivers what is stored again, as soon as a worker has made its consumer; %s decided it.", by)
		case err == nil:
			err = tell(cmd, c.json, repaired{true, nil, nil, shorter, "", by}, "The workers take the streams as they are from now on; %s decided it.", by)
		}
		return map[string]int{"created": len(made)}, err
	})
}

// shrunk returns the streams that lost their end or are others. Without the bucket nobody
// knows.
func (c *repairCommand) shrunk(ctx context.Context, q *queue.Queue, parts []queue.PartState) (losses []queue.Loss, err error) {
	if slices.ContainsFunc(parts, func(p queue.PartState) bool { return p.Part == queue.PartFleet && p.Missing() }) {
		return nil, nil
	}
	losses, _, err = q.Extents.Losses(ctx, nil)
	return losses, err
}

// repaired is the JSON output of repair.
type repaired struct {
	Changed bool     `json:"changed"`
	Missing []string `json:"missing,omitempty"`
	Made    []string `json:"made,omitempty"`
	// Accepted says which streams were taken as they are although they lost their end.
	Accepted []string `json:"accepted,omitempty"`
	// Stranded is an intent that had no outcome and was delivered to nobody.
	Stranded string `json:"stranded,omitempty"`
	By       string `json:"by,omitempty"`
}
