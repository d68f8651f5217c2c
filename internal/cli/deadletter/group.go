package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// selection is the letters that a command is about: one order's, or those of a filter.
type selection struct {
	*surroundings
	deadletter.LetterFilter
	matcher *deadletter.LetterMatcher
}

// register adds the flags of the filter, and the order number as the argument.
func (f *selection) register(cmd *cobra.Command) {
	cmd.Args, cmd.ValidArgsFunction = f.one, broker.CompleteLetter(f.environ)
	flags, environ := cmd.Flags(), f.environ
	flags.StringSliceVar(&f.Outcomes, "outcome", nil, "only these outcomes (rejected, exhausted, expired, invalid, poison, unknown)")
	flags.StringVar(&f.Reason, "reason", "", "only reasons that contain this text, in upper or lower case")
	flags.StringVar(&f.Answer, "answer", "", "only letters whose answer itself says this, as list shows it, in upper or lower case")
	flags.StringVar(&f.Batch, "batch", "", "only this import")
	flags.StringVar(&f.Since, "since", "", "only letters filed at or after this time (RFC 3339, or 90m, 24h, 7d ago)")
	flags.StringVar(&f.Until, "until", "", "only letters filed before this time (as --since)")
	flags.StringSliceVar(&f.Statuses, "status", nil, "only these HTTP statuses of the last answer (422, 5xx, 0 = no answer)")
	flags.StringVar(&f.OrderNo, "order-no", "", "only these order numbers; * stands for any text, ? for one character, \\ makes the next character literal")
	cli.NotEmpty(cmd, "outcome", "reason", "answer", "batch", "since", "until", "status", "order-no") // drop --outcome expired --batch "$BATCH"
	var outcomes []cobra.Completion
	for _, o := range order.Outcomes() {
		if o.NeedsLetter() {
			outcomes = append(outcomes, cobra.CompletionWithDesc(o.String(), o.Meaning()))
		}
	}
	for name, values := range map[string]cobra.CompletionFunc{
		"batch": broker.CompleteBatch(environ), "order-no": broker.CompleteLetter(environ), "reason": broker.CompleteReason(environ), "answer": broker.CompleteAnswer(environ), "outcome": cobra.FixedCompletions(outcomes, cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, values) // the flags exist
	}
}

// one takes an order number as the argument. It stands for the filter that selects this
// order alone.
func (f *selection) one(cmd *cobra.Command, args []string) error {
	if err := cli.Named(cobra.MaximumNArgs(1))(cmd, args); err != nil || len(args) == 0 {
		return err
	}
	if !f.Empty() {
		return errors.New("an order number takes no filter")
	}
	f.OrderNo = status.Exactly(args[0])
	return nil
}

// open reads the filter, and connects to the streams. Its error names every mistake in the
// flags; wrong are those that the command found. close is never nil.
func (f *selection) open(ctx context.Context, wrong ...error) (q *queue.Queue, g deadletter.Group, done func(), err error) {
	matcher, mistakes := f.Compile(time.Now())
	var errs []error
	for _, m := range mistakes {
		errs = append(errs, fmt.Errorf("--%w", m))
	}
	if err := errors.Join(append(errs, wrong...)...); err != nil {
		return nil, g, func() {}, usage(err)
	}
	f.matcher, g.Selects = matcher, matcher.Selects
	if q, done, err = f.surroundings.open(ctx); err == nil {
		g.Last, err = deadletter.LastLetter(ctx, q)
	}
	return q, g, done, err
}

// act is what a person asks to be done with a group of letters.
type act struct {
	selection
	person                 broker.Person
	all, yes, dryRun, json bool
	would                  string // what --dry-run tells of the letters
	asks                   bool   // before anything is changed
}

// register adds the flags that such commands share. schemas are those of --json.
func (a *act) register(cmd *cobra.Command, schemas ...string) {
	a.selection.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&a.all, "all", false, "every dead letter")
	f.BoolVar(&a.dryRun, "dry-run", false, "change nothing, say what would be "+a.would)
	if a.asks {
		f.BoolVar(&a.yes, "yes", false, "do not ask")
	}
	cli.JSONFlag(cmd, &a.json, schemas...)
	a.person.Register(cmd, a.environ)
}

// check names what is wrong with the flags of register.
func (a *act) check() error {
	var errs []error
	if a.Empty() != a.all {
		errs = append(errs, errors.New("give an order number, a filter, or --all for every dead letter"))
	}
	if a.asks && !a.yes && !a.dryRun && !cli.IsTerminal(a.stdin) {
		errs = append(errs, errors.New("there is no terminal to ask on; give --yes, or --dry-run to see what would be "+a.would))
	}
	return errors.Join(errs...)
}

// confirmed asks the question, unless --yes was given.
func (a *act) confirmed(format string, args ...any) bool {
	return a.yes || cli.SaysYes(a.stdin, a.stderr, fmt.Sprintf(format, args...))
}

// do does the deed with the group and journals it. report prints the tally.
func (a *act) do(cmd *cobra.Command, q *queue.Queue, g deadletter.Group, d deadletter.Deed, o deadletter.Options, about journal.About, report func(context.Context, deadletter.Tally) error) error {
	about.Kind, about.LastSeq, about.Filter = d.Kind, g.Last, a.Fields(a.matcher)
	if no, one := a.Only(); one {
		about.OrderNo = no
	} else {
		about.Batch = a.Batch
	}
	return a.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		tally, err := deadletter.Run(ctx, q, g, d, o)
		return tally.Counts(), stayed(d, tally, errors.Join(err, report(ctx, tally)))
	})
}

// stayed is err, or else that the deed left letters.
func stayed(d deadletter.Deed, t deadletter.Tally, err error) error {
	if n := t.Stayed(d); err == nil && n > 0 {
		return partial("%d dead letters stayed", n)
	}
	return err
}

// line is the line of a summary about the letters of one fate.
type line struct {
	fate deadletter.Fate
	text string
}

// summary prints the lines that have letters.
func (a *act) summary(t deadletter.Tally, lines []line) {
	for _, l := range lines {
		if n := t.Fates[l.fate]; n > 0 {
			say(a.stdout, "%9d %s", n, l.text)
		}
	}
	if t.Matching() == 0 {
		say(a.stdout, "No dead letters match.")
	}
	a.failures(t)
}

// failures prints what the broker did not confirm.
func (a *act) failures(t deadletter.Tally) {
	for _, text := range t.Errors {
		say(a.stderr, "%s", text)
	}
}

// unconfirmed is the line of letters with which the broker did not confirm the deed.
var unconfirmed = line{deadletter.Unsettled, "stay: the broker did not confirm; run the same command again"}
