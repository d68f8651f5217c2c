package deadletter

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/deadletter"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// filter is a filter of dead letters with its flags.
type filter struct {
	deadletter.LetterFilter
	matcher *deadletter.LetterMatcher
}

func (f *filter) register(cmd *cobra.Command, environ map[string]string) {
	flags := cmd.Flags()
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

// compile reads the flags. Its error names every mistake.
func (f *filter) compile(now time.Time) error {
	matcher, wrong := f.Compile(now)
	f.matcher = matcher
	var errs []error
	for _, w := range wrong {
		errs = append(errs, fmt.Errorf("--%w", w))
	}
	return errors.Join(errs...)
}

// one takes an order number as the argument. It stands for the filter that selects this
// order alone.
func (f *filter) one(cmd *cobra.Command, args []string) error {
	if err := cli.Named(cobra.MaximumNArgs(1))(cmd, args); err != nil || len(args) == 0 {
		return err
	}
	if !f.Empty() {
		return errors.New("an order number takes no filter")
	}
	f.OrderNo = status.Exactly(args[0])
	return nil
}

// journaled adds to about which letters the filter selects.
func (f *filter) journaled(about journal.About, last uint64) journal.About {
	about.LastSeq, about.Filter = last, f.Fields(f.matcher)
	if no, one := f.Only(); one {
		about.OrderNo = no
	} else {
		about.Batch = f.Batch
	}
	return about
}

func (f *filter) selects(l *settle.Letter) bool { return f.matcher.Selects(l) }
