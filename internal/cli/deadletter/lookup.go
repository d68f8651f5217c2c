package deadletter

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// longestLookup is how long orders may be looked up at most: no person can act on them meanwhile.
const longestLookup = 24 * time.Hour

type lookupCommand struct {
	act
	rate float64
	span time.Duration
}

func newLookupCommand(s *surroundings) *cobra.Command {
	c := &lookupCommand{act: act{selection: selection{surroundings: s}, would: "done"}}
	cmd := &cobra.Command{
		Use:   "lookup [ORDER_NO]",
		Short: "Have the API asked about orders whose outcome is unknown",
		Long: "lookup has workers ask the API whether it has the orders that may exist. Nothing is posted. The\n" +
			"workers' rules say how the API is asked (lookup in the rules file); without that, each order stays\n" +
			"unknown. An order that exists ends as accepted, one that was refused as rejected, and one that does\n" +
			"not exist as exhausted, with a dead letter that replay sends safely: one answer proves no absence,\n" +
			"so that takes the time of absent_for. Until then, and for --for at most, the order is in the queue,\n" +
			"and no other command acts on it. Give an order number, a filter, or --all. The journal keeps who\n" +
			"asked.\n\n" +
			"Exit code 3: some letters stayed; the summary says why.",
		Example: "  orderpost deadletter lookup --outcome unknown\n  orderpost deadletter lookup --batch march --for 30m",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, "lookup")
	f := cmd.Flags()
	f.Float64Var(&c.rate, "rate", 0, "orders per second at most; 0 = no limit")
	f.DurationVar(&c.span, "for", time.Hour, "ask about each order for so long at most, up to 24h")
	return cmd
}

func (c *lookupCommand) wrong() error {
	var errs []error
	if err := order.CheckRate(c.rate); err != nil {
		errs = append(errs, errors.New("--rate: "+err.Error()))
	}
	if c.span <= 0 || c.span > longestLookup {
		errs = append(errs, errors.New("--for: must be above 0 and at most "+longestLookup.String()+", is "+c.span.String()))
	}
	return errors.Join(errs...)
}

func (c *lookupCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	q, group, done, err := c.open(ctx, c.check(), c.wrong())
	defer done()
	if err != nil {
		return err
	}
	deed, how := deadletter.Lookup(q, time.Now().Add(c.span), c.person.Settle()), deadletter.Options{}
	if c.rate > 0 {
		how.Pace = rate.NewLimiter(rate.Limit(c.rate), 1)
	}
	if c.dryRun {
		tally, err := deadletter.Preview(ctx, q, group, deed, how)
		return stayed(deed, tally, errors.Join(err, c.report(tally, "")))
	}
	return c.do(cmd, q, group, deed, how, journal.About{Details: map[string]string{"for": c.span.String()}}, func(ctx context.Context, t deadletter.Tally) error {
		nothingSent := ""
		if t.Fates[deed.Does] > 0 {
			nothingSent = fleet.New(q).NothingSent(ctx)
		}
		return c.report(t, nothingSent)
	})
}

func (c *lookupCommand) report(t deadletter.Tally, nothingSent string) error {
	done := "in the queue, to be looked up"
	if c.dryRun {
		done = "would be looked up"
	}
	lines := []line{{deadletter.Asked, done}}
	for _, how := range []settle.Replay{settle.ReplayedBefore, settle.ReplayGone, settle.ReplayPending, settle.ReplayAccepted, settle.ReplayOtherInDoubt, settle.ReplayCertain, settle.ReplayLate, settle.ReplayForeign} {
		lines = append(lines, line{deadletter.Fate(how.String()), explained(how, c.dryRun)})
	}
	lines = append(lines, unconfirmed)
	if !c.json {
		c.summary(t, lines)
		if nothingSent != "" {
			say(c.stdout, "%s The orders wait.", cli.Printable(cli.Sentence(nothingSent)))
		}
		return nil
	}
	letters := make(map[string]int)
	for _, l := range lines {
		letters[string(l.fate)] = t.Fates[l.fate]
	}
	return cli.PrintJSON(c.stdout, map[string]any{"dry_run": c.dryRun, "letters": letters, "errors": append([]string{}, t.Errors...), "nothing_sent": nothingSent})
}
