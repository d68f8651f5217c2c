package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/approval"
	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// decisions are the unknown orders that the list decides.
type decisions struct {
	knew       settle.StreamSeq // the newest result before the books were read
	lastLetter uint64
	letters    map[order.Outcome][]string // sequences of the orders' dead letters
	others     map[order.Outcome][]*entry // orders without one: a person dropped it
}

func (d *decisions) add(as order.Outcome, r *entry) {
	if d.letters == nil {
		d.letters, d.others = make(map[order.Outcome][]string), make(map[order.Outcome][]*entry)
	}
	if r.Letter == 0 {
		d.others[as] = append(d.others[as], r)
	} else {
		d.letters[as] = append(d.letters[as], strconv.FormatUint(r.Letter, 10))
	}
}

func (d *decisions) count(as order.Outcome) int { return len(d.letters[as]) + len(d.others[as]) }

// actSize is how many letters one act names. An act that needs a second person must fit into an entry of the journal.
const actSize = 2000

// asked counts orders that wait for a second person.
const asked = "asked"

// absenceProvesNothing says why orders that the list lacks stay unknown; nil = they do not exist.
func (c *command) absenceProvesNothing(r *report) error {
	switch {
	case !c.complete:
		return errors.New("--complete was not given")
	case r.BadLines > 0:
		return fmt.Errorf("%d lines of the list could not be compared", r.BadLines)
	case r.Agreed == 0:
		return errors.New("the list has no order that the books have as accepted, so it may be another account's, or --order-no another column")
	}
	return nil
}

// applyAll settles what the list decides. left says that something stayed, or waits for a second person.
func (c *command) applyAll(cmd *cobra.Command, r *report, d *decisions) (left, err error) {
	if why := c.absenceProvesNothing(r); why != nil && d.count(order.OutcomeRejected) > 0 {
		_, _ = fmt.Fprintf(c.stderr, "%d unknown orders that the list lacks stay as they are: %v\n", d.count(order.OutcomeRejected), why)
		delete(d.letters, order.OutcomeRejected)
		delete(d.others, order.OutcomeRejected)
	}
	exist, absent := d.count(order.OutcomeAccepted), d.count(order.OutcomeRejected)
	r.Applied = make(map[string]int)
	if exist+absent == 0 {
		return nil, nil
	}
	if !c.yes && !cli.SaysYes(c.stdin, c.stderr, fmt.Sprintf("Record that %d unknown orders exist at the API, and that %d do not?", exist, absent)) {
		return partial("nothing was changed"), nil
	}
	c.person.Note = cmp.Or(c.person.Note, fmt.Sprintf("by the list %s (SHA-256 %.16s) as of %s", r.List, r.SHA256, r.AsOf.Format(time.RFC3339)))
	for _, as := range []order.Outcome{order.OutcomeAccepted, order.OutcomeRejected} {
		for seqs := range slices.Chunk(d.letters[as], actSize) {
			if err := c.settleLetters(cmd, r, d, as, seqs); err != nil {
				return nil, err
			}
		}
		for _, o := range d.others[as] {
			if err := c.settleOne(cmd, r, d, as, o); err != nil {
				return nil, err
			}
		}
	}
	if !c.json {
		_, _ = fmt.Fprintf(c.stdout, "%9d settled\n", r.Applied[string(deadletter.Resolved)]) // Guard reports it
	}
	if n := exist + absent - r.Applied[string(deadletter.Resolved)]; n > 0 {
		left = partial("%d unknown orders stayed, of which %d wait for a second person in the console", n, r.Applied[asked])
	}
	return left, nil
}

func (c *command) about(as order.Outcome, r *report, n int) journal.About {
	return journal.About{Kind: journal.Resolve, Expected: map[string]int{string(deadletter.Resolved): n},
		Details: map[string]string{"as": as.String(), "list": r.List, "list_sha256": r.SHA256, "list_as_of": r.AsOf.Format(time.RFC3339)}}
}

func (c *command) who(d *decisions) settle.Person {
	who := c.person.Settle()
	who.Knew = d.knew
	return who
}

func (c *command) settleLetters(cmd *cobra.Command, r *report, d *decisions, as order.Outcome, seqs []string) error {
	about := c.about(as, r, len(seqs))
	about.Filter, about.LastSeq = map[string][]string{"letter": seqs}, d.lastLetter
	group := deadletter.Group{Last: d.lastLetter}
	for _, text := range seqs {
		seq, _ := strconv.ParseUint(text, 10, 64) // add wrote it
		group.Seqs = append(group.Seqs, seq)
	}
	return c.act(cmd, r, about, func(ctx context.Context) (map[string]int, error) {
		deed := deadletter.Resolve(c.q, as, c.who(d))
		tally, err := deadletter.Run(ctx, c.q, group, deed, deadletter.Options{})
		for _, text := range tally.Errors {
			_, _ = fmt.Fprintln(c.stderr, cli.Printable(text))
		}
		if n := tally.Stayed(deed); err == nil && n > 0 {
			err = partial("%d dead letters stayed", n)
		}
		return tally.Counts(), err
	})
}

func (c *command) settleOne(cmd *cobra.Command, r *report, d *decisions, as order.Outcome, o *entry) error {
	about := c.about(as, r, 1)
	about.OrderNo, about.Details["seen"] = o.OrderNo, o.WriteID
	return c.act(cmd, r, about, func(ctx context.Context) (map[string]int, error) {
		_, err := c.q.Operator.Resolve(ctx, o.OrderNo, o.WriteID, as, c.who(d))
		for _, refusal := range []error{settle.ErrPending, settle.ErrNoResult, settle.ErrNotInDoubt, settle.ErrReplaced} {
			if errors.Is(err, refusal) {
				return nil, partial("%w", err)
			}
		}
		if err != nil {
			return nil, err
		}
		return map[string]int{string(deadletter.Resolved): 1}, nil
	})
}

// act journals one act and counts what became of its orders. Orders that stayed end no run.
func (c *command) act(cmd *cobra.Command, r *report, about journal.About, do func(context.Context) (map[string]int, error)) error {
	err := c.person.On(cmd).Act(cmd.Context(), c.q, about, nil, func(ctx context.Context) (map[string]int, error) {
		counts, err := do(ctx)
		for fate, n := range counts {
			r.Applied[fate] += n
		}
		return counts, err
	})
	if a, needs := errors.AsType[*approval.Asked](err); needs {
		r.Applied[asked] += about.Expected[string(deadletter.Resolved)]
		_, _ = fmt.Fprintln(c.stderr, cli.Printable(a.Error()))
	}
	if cli.ExitCode(err) == cli.ExitPartial {
		return nil
	}
	return err
}
