package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// requeue is what the commands share that put letters' orders into the queue.
type requeue struct {
	act
	rate float64
	// nothingSent is a sentence if the orders wait because no worker sends.
	nothingSent string
}

type replayCommand struct {
	requeue
	resubmit bool
	limit    int
	deadline string
}

func newReplayCommand(s *surroundings) *cobra.Command {
	c := &replayCommand{requeue: newRequeue(s)}
	cmd := &cobra.Command{
		Use:   "replay [ORDER_NO]",
		Short: "Put the orders of dead letters back into the queue",
		Long: "replay enqueues the orders again, unchanged and under their own order numbers. Each letter stays\n" +
			"until the order has its outcome. replay may be interrupted and repeated: no order is lost or\n" +
			"doubled. Give an order number, a filter, or --all.\n\n" +
			"An order whose outcome is unknown may exist at the API. replay leaves it alone unless you give\n" +
			"--resubmit-unknown. Do that only if the API refuses or recognises a duplicate order_no, or after\n" +
			"its operator said that the order does not exist. Your permission is recorded with your name. A\n" +
			"correction with other fields than those of the order that may exist stays until you resolve that\n" +
			"one. An accepted order is never replayed. The journal keeps who replayed what.\n\n" +
			"Exit code 3: some letters stayed; the summary says why.",
		Example: "  orderpost deadletter replay --outcome exhausted --since 2h --dry-run\n  orderpost deadletter replay --batch march --rate 20",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, "replay")
	f := cmd.Flags()
	c.paced(cmd)
	f.IntVar(&c.limit, "limit", 0, "orders at most; 0 = all that match")
	f.BoolVar(&c.resubmit, "resubmit-unknown", false, "also orders that may exist at the API; may create an order twice")
	f.StringVar(&c.deadline, "deadline", "", "RFC 3339 time that replaces the orders' own deadlines; none removes them")
	cli.NotEmpty(cmd, "deadline")
	return cmd
}

// options reads the flags that are replay's own. Its error names every mistake.
func (c *replayCommand) options() (o settle.ReplayOptions, err error) {
	o.ResubmitUnknown = c.resubmit
	var errs []error
	if c.limit < 0 {
		errs = append(errs, errors.New("--limit: cannot be below 0"))
	}
	switch c.deadline {
	case "":
	case "none":
		o.Deadline = new(time.Time)
	default:
		at, err := time.Parse(time.RFC3339, c.deadline)
		if err != nil {
			errs = append(errs, fmt.Errorf("--deadline: %q is neither none nor a time such as 2026-01-31T18:00:00Z", c.deadline))
		}
		o.Deadline = &at
	}
	if c.resubmit && !c.dryRun {
		o.Person = c.person.Settle()
	}
	return o, errors.Join(errs...)
}

func newRequeue(s *surroundings) requeue {
	return requeue{act: act{selection: selection{surroundings: s}, would: "done"}}
}

func (r *requeue) paced(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&r.rate, "rate", 0, "orders per second at most; 0 = no limit")
}

// wrongRate names what is wrong with the rate.
func (r *requeue) wrongRate() error {
	if err := order.CheckRate(r.rate); err != nil {
		return fmt.Errorf("--rate: %w", err)
	}
	return nil
}

// carry previews the deed, or does and journals it. lines are those of its summary.
func (r *requeue) carry(cmd *cobra.Command, q *queue.Queue, g deadletter.Group, d deadletter.Deed, limit int, details map[string]string, lines []line) error {
	ctx, how := cmd.Context(), deadletter.Options{Limit: limit}
	if r.rate > 0 {
		how.Pace = rate.NewLimiter(rate.Limit(r.rate), 1)
	}
	if r.dryRun {
		tally, err := deadletter.Preview(ctx, q, g, d, how)
		return stayed(d, tally, errors.Join(err, r.report(tally, lines)))
	}
	return r.do(cmd, q, g, d, how, journal.About{Details: details}, func(ctx context.Context, t deadletter.Tally) error {
		if t.Fates[d.Does] > 0 {
			r.nothingSent = fleet.New(q).NothingSent(ctx)
		}
		return r.report(t, lines)
	})
}

func (r *requeue) report(t deadletter.Tally, lines []line) error {
	lines = append(lines, unconfirmed)
	if r.json {
		letters := make(map[string]int)
		for _, l := range lines {
			letters[string(l.fate)] = t.Fates[l.fate]
		}
		return cli.PrintJSON(r.stdout, map[string]any{"dry_run": r.dryRun, "letters": letters, "errors": t.Errors, "nothing_sent": r.nothingSent})
	}
	r.summary(t, lines)
	if r.nothingSent != "" {
		say(r.stdout, "%s The orders wait.", cli.Printable(cli.Sentence(r.nothingSent)))
	}
	return nil
}

func (c *replayCommand) run(cmd *cobra.Command) error {
	o, wrong := c.options()
	q, group, done, err := c.open(cmd.Context(), c.check(), c.wrongRate(), wrong)
	defer done()
	if err != nil {
		return err
	}
	var lines []line
	for _, how := range settle.Replays() {
		if how != settle.ReplayCertain { // of a lookup
			lines = append(lines, line{deadletter.Fate(how.String()), explained(how, c.dryRun)})
		}
	}
	return c.carry(cmd, q, group, deadletter.Replay(q, o), c.limit, c.details(), lines)
}

// details are the parameters that the journal keeps.
func (c *replayCommand) details() map[string]string {
	out := make(map[string]string)
	if c.resubmit {
		out["resubmit-unknown"] = "true"
	}
	if c.deadline != "" {
		out["deadline"] = c.deadline
	}
	if c.limit > 0 {
		out["limit"] = strconv.Itoa(c.limit)
	}
	if c.rate > 0 {
		out["rate"] = strconv.FormatFloat(c.rate, 'g', -1, 64)
	}
	return out
}

// explained returns the text for an end of a replay.
func explained(how settle.Replay, dry bool) string {
	switch how {
	case settle.Replayed:
		if dry {
			return "would be replayed"
		}
		return "replayed"
	case settle.ReplayedBefore:
		return "under way: an earlier replay or lookup is in the queue"
	case settle.ReplayGone:
		return "gone or replaced meanwhile"
	case settle.ReplayPending:
		return "stay: another intent for the order_no is in the queue"
	case settle.ReplayAccepted:
		return "stay: the order was accepted"
	case settle.ReplayInDoubt:
		return "stay: the order may exist (see --resubmit-unknown)"
	case settle.ReplayOtherInDoubt:
		return "stay: the order may exist with another body; resolve it first"
	case settle.ReplayCertain:
		return "stay: the outcome is not in doubt"
	case settle.ReplayLate:
		return "stay: the deadline has passed (see --deadline)"
	default:
		return "stay: the subject is not the order_no's; export, correct and enqueue"
	}
}
