package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// checkGroup reads the flags of a group. Its error names every mistake.
func (c *resolveCommand) checkGroup() error {
	errs := []error{c.compile(time.Now())}
	if c.Empty() != c.all {
		errs = append(errs, errors.New("give an order number, a filter, or --all for every dead letter"))
	}
	if c.seen != "" {
		errs = append(errs, errors.New("--seen: is about one order; name it"))
	}
	if !c.yes && !c.dryRun && !cli.IsTerminal(c.stdin) {
		errs = append(errs, errors.New("there is no terminal to ask on; give --yes, or --dry-run to see what would be settled"))
	}
	return errors.Join(errs...)
}

// group settles the orders of all letters that the filter selects, up to the last one
// that is stored now.
func (c *resolveCommand) group(cmd *cobra.Command, q *queue.Queue, as order.Outcome) error {
	ctx := cmd.Context()
	last, err := deadletter.LastLetter(ctx, q)
	if err != nil {
		return err
	}
	deed, group := deadletter.Resolve(q, as, c.person.Settle()), deadletter.Group{Selects: c.selects, Last: last}
	expected, err := deadletter.Preview(ctx, q, group, deed, deadletter.Options{})
	if err != nil {
		return err
	}
	if n := expected.Fates[deadletter.Resolved]; c.dryRun || n == 0 {
		return c.reportGroup(deed, expected, as, true, nil)
	} else if !c.yes {
		c.tellGroup(expected, as, true)
		question := fmt.Sprintf("Record that %d %s %s at the API?", n, lookup.Plural(n, "order", "orders"), exists(as, n))
		if !cli.SaysYes(c.stdin, c.stderr, question) {
			return partial("nothing was changed")
		}
	}
	about := c.journaled(journal.About{Kind: journal.Resolve, Details: map[string]string{"as": as.String()}, Expected: expected.Counts()}, last)
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		tally, err := deadletter.Run(ctx, q, group, deed, deadletter.Options{})
		return tally.Counts(), c.reportGroup(deed, tally, as, false, err)
	})
}

func exists(as order.Outcome, n int) string {
	if as == order.OutcomeAccepted {
		return lookup.Plural(n, "exists", "exist")
	}
	return lookup.Plural(n, "does not exist", "do not exist")
}

// resolvedGroup is the JSON output of resolve for a group.
type resolvedGroup struct {
	DryRun bool           `json:"dry_run"`
	As     order.Outcome  `json:"as"`
	Orders map[string]int `json:"orders"`
	Errors []string       `json:"errors"`
}

// reportGroup prints the summary and returns the command's error.
func (c *resolveCommand) reportGroup(d deadletter.Deed, t deadletter.Tally, as order.Outcome, dry bool, err error) error {
	if c.json {
		out := resolvedGroup{DryRun: dry, As: as, Orders: make(map[string]int), Errors: append([]string{}, t.Errors...)}
		for _, f := range groupFates {
			out.Orders[string(f)] = t.Fates[f]
		}
		err = errors.Join(err, cli.PrintJSON(c.stdout, out))
	} else {
		c.tellGroup(t, as, dry)
	}
	if stayed := t.Stayed(d); err == nil && stayed > 0 {
		err = partial("%d dead letters stayed", stayed)
	}
	return err
}

// groupFates are the fates of letters whose orders are resolved.
var groupFates = []deadletter.Fate{deadletter.Resolved, deadletter.Gone, deadletter.Certain, deadletter.Pending, deadletter.Unsettled}

func (c *resolveCommand) tellGroup(t deadletter.Tally, as order.Outcome, dry bool) {
	done := as.String()
	if dry {
		done = "would be " + done
	}
	texts := map[deadletter.Fate]string{
		deadletter.Resolved: done, deadletter.Gone: "gone or replaced meanwhile", deadletter.Certain: "stay: the outcome is not in doubt",
		deadletter.Pending:   "stay: an intent for the order_no is in the queue",
		deadletter.Unsettled: "stay: the broker did not confirm; run the same command again",
	}
	for _, f := range groupFates {
		if n := t.Fates[f]; n > 0 {
			say(c.stdout, "%9d %s", n, texts[f])
		}
	}
	if t.Matching() == 0 {
		say(c.stdout, "No dead letters match.")
	}
	for _, line := range t.Errors {
		say(c.stderr, "%s", line)
	}
}
