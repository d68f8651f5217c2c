package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

type replayCommand struct {
	*surroundings
	filter
	all, dryRun, resubmit, json bool
	rate                        float64
	limit                       int
	deadline                    string
	person                      broker.Person
	// nothingSent is a sentence if the orders wait because no worker sends.
	nothingSent string
}

func newReplayCommand(s *surroundings) *cobra.Command {
	c := &replayCommand{surroundings: s}
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
		Args:    c.one,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(s.environ)
	f := cmd.Flags()
	c.register(cmd, s.environ)
	f.BoolVar(&c.all, "all", false, "every dead letter")
	f.BoolVar(&c.dryRun, "dry-run", false, "change nothing, say what would be done")
	f.Float64Var(&c.rate, "rate", 0, "orders per second at most; 0 = no limit")
	f.IntVar(&c.limit, "limit", 0, "orders at most; 0 = all that match")
	f.BoolVar(&c.resubmit, "resubmit-unknown", false, "also orders that may exist at the API; may create an order twice")
	f.StringVar(&c.deadline, "deadline", "", "RFC 3339 time that replaces the orders' own deadlines; none removes them")
	cli.NotEmpty(cmd, "deadline")
	cli.JSONFlag(cmd, &c.json, "replay")
	c.person.Register(cmd, s.environ)
	return cmd
}

// check reads the flags. Its error names every mistake.
func (c *replayCommand) check() (o settle.ReplayOptions, err error) {
	o = settle.ReplayOptions{ResubmitUnknown: c.resubmit}
	errs := []error{c.compile(time.Now())}
	if c.Empty() != c.all {
		errs = append(errs, errors.New("give an order number, a filter, or --all for every dead letter"))
	}
	if err := order.CheckRate(c.rate); err != nil {
		errs = append(errs, fmt.Errorf("--rate: %w", err))
	}
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

func (c *replayCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	o, err := c.check()
	if err != nil {
		return usage(err)
	}
	q, done, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	last, err := deadletter.LastLetter(ctx, q)
	if err != nil {
		return err
	}
	deed, group := deadletter.Replay(q, o), deadletter.Group{Selects: c.selects, Last: last}
	how := deadletter.Options{Limit: c.limit}
	if c.rate > 0 {
		how.Pace = rate.NewLimiter(rate.Limit(c.rate), 1)
	}
	if c.dryRun {
		tally, err := deadletter.Preview(ctx, q, group, deed, how)
		return c.report(deed, tally, err)
	}
	about := c.journaled(journal.About{Kind: journal.Replay, Details: c.details()}, last)
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		tally, err := deadletter.Run(ctx, q, group, deed, how)
		if tally.Fates[deadletter.Fate(settle.Replayed.String())] > 0 {
			c.nothingSent = fleet.New(q).NothingSent(ctx)
		}
		return tally.Counts(), c.report(deed, tally, err)
	})
}

// report prints the summary and returns the command's error.
func (c *replayCommand) report(d deadletter.Deed, t deadletter.Tally, err error) error {
	c.summary(t)
	if stayed := t.Stayed(d); err == nil && stayed > 0 {
		err = partial("%d dead letters stayed", stayed)
	}
	return err
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
		return "under way: an earlier replay is in the queue"
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
	case settle.ReplayLate:
		return "stay: the deadline has passed (see --deadline)"
	default:
		return "stay: the subject is not the order_no's; export, correct and enqueue"
	}
}

func (c *replayCommand) summary(t deadletter.Tally) {
	failed := t.Fates[deadletter.Unsettled]
	if c.json {
		counts := map[string]int{"failed": failed}
		for _, how := range settle.Replays() {
			counts[how.String()] = t.Fates[deadletter.Fate(how.String())]
		}
		_ = cli.PrintJSON(c.stdout, map[string]any{"dry_run": c.dryRun, "letters": counts, "errors": t.Errors, "nothing_sent": c.nothingSent})
		return
	}
	for _, how := range settle.Replays() {
		if n := t.Fates[deadletter.Fate(how.String())]; n > 0 {
			say(c.stdout, "%9d %s", n, explained(how, c.dryRun))
		}
	}
	if failed > 0 {
		say(c.stdout, "%9d stay: the broker did not confirm; run the same command again", failed)
	}
	if c.nothingSent != "" {
		say(c.stdout, "%s The orders wait.", cli.Printable(cli.Sentence(c.nothingSent)))
	}
	if t.Matching() == 0 {
		say(c.stdout, "No dead letters match.")
	}
	for _, line := range t.Errors {
		say(c.stderr, "%s", line)
	}
}
