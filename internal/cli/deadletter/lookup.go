package deadletter

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/deadletter"
	"orderpost/internal/settle"
)

// longestLookup is how long orders may be looked up at most: no person can act on them meanwhile.
const longestLookup = 24 * time.Hour

type lookupCommand struct {
	requeue
	span time.Duration
}

func newLookupCommand(s *surroundings) *cobra.Command {
	c := &lookupCommand{requeue: newRequeue(s)}
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
	c.paced(cmd)
	cmd.Flags().DurationVar(&c.span, "for", time.Hour, "ask about each order for so long at most, up to 24h")
	return cmd
}

func (c *lookupCommand) wrong() error {
	if c.span <= 0 || c.span > longestLookup {
		return fmt.Errorf("--for: must be above 0 and at most %s, is %s", longestLookup, c.span)
	}
	return nil
}

func (c *lookupCommand) run(cmd *cobra.Command) error {
	q, group, done, err := c.open(cmd.Context(), c.check(), c.wrongRate(), c.wrong())
	defer done()
	if err != nil {
		return err
	}
	says := "in the queue, to be looked up"
	if c.dryRun {
		says = "would be looked up"
	}
	lines := []line{{deadletter.Asked, says}}
	for _, how := range []settle.Replay{settle.ReplayedBefore, settle.ReplayGone, settle.ReplayPending, settle.ReplayAccepted, settle.ReplayOtherInDoubt, settle.ReplayCertain, settle.ReplayLate, settle.ReplayForeign} {
		lines = append(lines, line{deadletter.Fate(how.String()), explained(how, c.dryRun)})
	}
	deed := deadletter.Replay(q, settle.ReplayOptions{LookupUntil: time.Now().Add(c.span), Person: c.person.Settle()})
	return c.carry(cmd, q, group, deed, 0, map[string]string{"for": c.span.String()}, lines)
}
