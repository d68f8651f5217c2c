package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
)

// journalRows is the default number of acts in the output.
const journalRows = 50

type journalCommand struct {
	*surroundings
	query              journal.Query
	kind, since, until string
	limit              int
	follow, json       bool
}

// NewJournalCommand returns the command journal, which shows who did what.
func NewJournalCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	c := &journalCommand{surroundings: &surroundings{environ, stdin, stdout, stderr}}
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Show who did what",
		Long: "journal lists the acts of people, newest first: who imported, cancelled, replayed, resolved, dropped, held,\n" +
			"resumed or limited what, from which host, with which filter, and what came of it. How a name is known\n" +
			"stands beside it: a name of --by or $USER is a claim. Nobody can change or delete an entry.\n\n" +
			"An act without a result still runs, or its program ended, or could not write it.",
		Example: "  orderpost journal\n  orderpost journal --since 24h --kind replay\n  orderpost journal --order-no A-100 --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.since, "since", "", "only acts at or after this time (RFC 3339, or 90m, 24h, 7d ago)")
	f.StringVar(&c.until, "until", "", "only acts before this time (as --since)")
	f.StringVar(&c.query.By, "by", "", "only this person's acts; anna also finds anna@host")
	f.StringVar(&c.kind, "kind", "", "only acts of this kind: "+kindNames())
	f.StringVar(&c.query.OrderNo, "order-no", "", "only acts on this one order (acts on groups do not name their orders)")
	f.StringVar(&c.query.OrderNo, "order", "", "another name of --order-no")
	_ = f.MarkHidden("order") // the flag exists
	f.StringVar(&c.query.Batch, "batch", "", "only acts on this import")
	cli.NotEmpty(cmd, "since", "until", "by", "kind", "order-no", "order", "batch")
	f.IntVar(&c.limit, "limit", journalRows, "acts shown at most; 0 = all")
	f.BoolVar(&c.follow, "follow", false, "go on with what happens from now on, until Ctrl-C")
	cli.JSONFlag(cmd, &c.json, "journal")
	for name, values := range map[string]cobra.CompletionFunc{
		"batch": broker.CompleteBatch(environ), "order-no": broker.CompleteLetter(environ),
		"kind": cobra.FixedCompletions(strings.Split(kindNames(), ", "), cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, values) // the flags exist
	}
	return broker.Patient(cmd, environ, broker.AgainLook)
}

func kindNames() string {
	var names []string
	for _, k := range journal.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// check reads the flags. Its error names every mistake.
func (c *journalCommand) check(now time.Time) error {
	var errs []error
	var err error
	if c.query.Since, err = deadletter.ReadTime(c.since, now); err != nil {
		errs = append(errs, fmt.Errorf("--since: %w", err))
	}
	if c.query.Until, err = deadletter.ReadTime(c.until, now); err != nil {
		errs = append(errs, fmt.Errorf("--until: %w", err))
	}
	if c.query.Kind = journal.Kind(c.kind); c.kind != "" && !slices.Contains(journal.Kinds(), c.query.Kind) {
		errs = append(errs, fmt.Errorf("--kind: %q is none of %s", c.kind, kindNames()))
	}
	if c.query.OrderNo != "" && c.query.Batch != "" {
		errs = append(errs, errors.New("--order and --batch: give one of them"))
	}
	if c.limit < 0 {
		errs = append(errs, errors.New("--limit: is below 0"))
	}
	return errors.Join(errs...)
}

func (c *journalCommand) run(ctx context.Context) error {
	if err := c.check(time.Now()); err != nil {
		return usage(err)
	}
	q, done, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	end, err := journal.Last(ctx, q)
	if err != nil {
		return err
	}
	left, more := c.limit, false
	bad, err := journal.All(ctx, q, c.query, func(item journal.Item) bool {
		if more = c.limit > 0 && left == 0; more {
			return false
		}
		left--
		c.print(item)
		return true
	})
	for _, unreadable := range bad {
		say(c.stderr, "skipped: %v", unreadable)
	}
	switch {
	case err != nil:
		return err
	case c.follow:
		return journal.Follow(ctx, q, c.query, end, c.print)
	case more && !c.json:
		say(c.stdout, "… and older ones (--limit 0 shows all, filters narrow it)")
	case left == c.limit && !c.json:
		say(c.stdout, "The journal has no such acts.")
	}
	return nil
}

// print prints one act.
func (c *journalCommand) print(item journal.Item) {
	if c.json {
		_ = cli.PrintJSON(c.stdout, item)
		return
	}
	say(c.stdout, "%s  %-8s %s, %s", item.Stored.Format("2006-01-02 15:04:05Z"), item.Kind, lookup.Plain(item.Actor.Name), item.Actor.Known.Meaning())
	for _, line := range lookup.Describe(item) {
		for _, part := range lookup.Lines(line, 68) {
			say(c.stdout, "            %s", part)
		}
	}
}
