package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// decisions are the unknown orders that the list decides.
type decisions struct {
	knew       settle.StreamSeq // the newest result before the books were read
	lastLetter uint64
	letters    [2][]uint64 // sequences of the orders' dead letters, by whether the orders exist
	others     [2][]*entry // orders without one: a person dropped it
}

// answers are the outcomes of what does not exist, and of what does.
var answers = [2]order.Outcome{order.OutcomeRejected, order.OutcomeAccepted}

func (d *decisions) add(exists int, r *entry) {
	if r.Letter == 0 {
		d.others[exists] = append(d.others[exists], r)
	} else {
		d.letters[exists] = append(d.letters[exists], r.Letter)
	}
}

func (d *decisions) count(exists int) int { return len(d.letters[exists]) + len(d.others[exists]) }

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
	if why := c.absenceProvesNothing(r); why != nil && d.count(0) > 0 {
		_, _ = fmt.Fprintf(c.stderr, "%d unknown orders that the list lacks stay as they are: %v\n", d.count(0), why)
		d.letters[0], d.others[0] = nil, nil
	}
	n := d.count(0) + d.count(1)
	r.Applied = make(map[string]int)
	if n == 0 {
		return nil, nil
	}
	if !c.yes && !cli.SaysYes(c.stdin, c.stderr, fmt.Sprintf("Record that %d unknown orders exist at the API, and that %d do not?", d.count(1), d.count(0))) {
		return partial("nothing was changed"), nil
	}
	c.person.Note = cmp.Or(c.person.Note, fmt.Sprintf("by the list %s (SHA-256 %.16s) as of %s", r.List, r.SHA256, r.AsOf.Format(time.RFC3339)))
	who := c.person.Settle()
	who.Knew = d.knew
	for exists, as := range answers {
		for seqs := range slices.Chunk(d.letters[exists], actSize) {
			if err := c.settleLetters(cmd, r, deadletter.Group{Last: d.lastLetter, Seqs: seqs}, as, who); err != nil {
				return nil, err
			}
		}
		for _, o := range d.others[exists] {
			if err := c.settleOne(cmd, r, o, as, who); err != nil {
				return nil, err
			}
		}
	}
	done := r.Applied[string(deadletter.Resolved)]
	if !c.json {
		_, _ = fmt.Fprintf(c.stdout, "%9d settled\n", done) // Guard reports it
	}
	if n > done {
		left = partial("%d unknown orders stayed, of which %d wait for a second person in the console", n-done, r.Applied[asked])
	}
	return left, nil
}

func (c *command) settleLetters(cmd *cobra.Command, r *report, group deadletter.Group, as order.Outcome, who settle.Person) error {
	about := journal.About{LastSeq: group.Last, Filter: make(map[string][]string)}
	for _, seq := range group.Seqs {
		about.Filter["letter"] = append(about.Filter["letter"], strconv.FormatUint(seq, 10))
	}
	return c.act(cmd, r, about, len(group.Seqs), as, func(ctx context.Context) (map[string]int, error) {
		deed := deadletter.Resolve(c.q, as, who)
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

func (c *command) settleOne(cmd *cobra.Command, r *report, o *entry, as order.Outcome, who settle.Person) error {
	about := journal.About{OrderNo: o.OrderNo, Details: map[string]string{"seen": o.WriteID}}
	return c.act(cmd, r, about, 1, as, func(ctx context.Context) (map[string]int, error) {
		_, err := c.q.Operator.Resolve(ctx, o.OrderNo, o.WriteID, as, who)
		for _, refusal := range []error{settle.ErrPending, settle.ErrNoResult, settle.ErrNotInDoubt, settle.ErrReplaced} {
			if errors.Is(err, refusal) {
				return nil, partial("%w", err)
			}
		}
		return map[string]int{string(deadletter.Resolved): 1}, err
	})
}

// act journals one act about n orders and counts what became of them. Orders that stay end no run.
func (c *command) act(cmd *cobra.Command, r *report, about journal.About, n int, as order.Outcome, do func(context.Context) (map[string]int, error)) error {
	about.Kind, about.Expected = journal.Resolve, map[string]int{string(deadletter.Resolved): n}
	details := map[string]string{"as": as.String(), "list": r.List, "list_sha256": r.SHA256, "list_as_of": r.AsOf.Format(time.RFC3339)}
	maps.Copy(details, about.Details)
	about.Details = details
	err := c.person.On(cmd).Act(cmd.Context(), c.q, about, nil, func(ctx context.Context) (map[string]int, error) {
		counts, err := do(ctx)
		if err == nil || cli.ExitCode(err) == cli.ExitPartial {
			for fate, k := range counts {
				r.Applied[fate] += k
			}
		}
		return counts, err
	})
	if a, needs := errors.AsType[*approval.Asked](err); needs {
		r.Applied[asked] += n
		_, _ = fmt.Fprintln(c.stderr, cli.Printable(a.Error()))
	}
	if cli.ExitCode(err) == cli.ExitPartial {
		return nil
	}
	return err
}
