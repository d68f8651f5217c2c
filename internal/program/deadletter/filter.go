package deadletter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/program/broker"
	"orderpost/internal/settle"
)

// filter selects dead letters. An empty field selects all.
type filter struct {
	outcomes, statuses   []string
	reason, batch, match string
	since, until         string

	byOutcome  []order.Outcome
	byStatus   []statusRange
	byOrderNo  *regexp.Regexp
	begin, end time.Time
}

type statusRange struct{ low, high int }

func (f *filter) register(cmd *cobra.Command, environ map[string]string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.outcomes, "outcome", nil, "only these outcomes (rejected, exhausted, expired, invalid, poison, unknown)")
	flags.StringVar(&f.reason, "reason", "", "only reasons that contain this text, in upper or lower case")
	flags.StringVar(&f.batch, "batch", "", "only this import")
	flags.StringVar(&f.since, "since", "", "only letters filed at or after this time (RFC 3339, or 90m, 24h, 7d ago)")
	flags.StringVar(&f.until, "until", "", "only letters filed before this time (as --since)")
	flags.StringSliceVar(&f.statuses, "status", nil, "only these HTTP statuses of the last answer (422, 5xx, 0 = no answer)")
	flags.StringVar(&f.match, "order-no", "", "only these order numbers; * stands for any text, ? for one character, \\ makes the next character literal")
	var outcomes []cobra.Completion
	for _, o := range order.Outcomes() {
		if o.NeedsLetter() {
			outcomes = append(outcomes, cobra.CompletionWithDesc(o.String(), o.Meaning()))
		}
	}
	for name, values := range map[string]cobra.CompletionFunc{
		"batch": broker.CompleteBatch(environ), "order-no": broker.CompleteLetter(environ), "reason": broker.CompleteReason(environ), "outcome": cobra.FixedCompletions(outcomes, cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, values) // the flags exist
	}
}

// compile reads the flags. Its error names every mistake.
func (f *filter) compile(now time.Time) error {
	var errs []error
	for _, word := range f.outcomes {
		var o order.Outcome
		err := o.UnmarshalText([]byte(word))
		if err == nil && !o.NeedsLetter() {
			err = fmt.Errorf("an order that is %s has no dead letter", word)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--outcome: %w", err))
		}
		f.byOutcome = append(f.byOutcome, o)
	}
	for _, text := range f.statuses {
		r, err := readStatus(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--status: %w", err))
		}
		f.byStatus = append(f.byStatus, r)
	}
	var err error
	if f.begin, err = readTime(f.since, now); err != nil {
		errs = append(errs, fmt.Errorf("--since: %w", err))
	}
	if f.end, err = readTime(f.until, now); err != nil {
		errs = append(errs, fmt.Errorf("--until: %w", err))
	}
	if f.match != "" {
		f.byOrderNo = globPattern(f.match)
	}
	return errors.Join(errs...)
}

var statusClass = regexp.MustCompile(`^[1-5]xx$`)

func readStatus(text string) (statusRange, error) {
	if statusClass.MatchString(text) {
		low := int(text[0]-'0') * 100
		return statusRange{low, low + 99}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n != 0 && (n < 100 || n > 599) {
		return statusRange{}, fmt.Errorf("%q is not an HTTP status such as 422, 5xx or 0", text)
	}
	return statusRange{n, n}, nil
}

func readTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a time such as 2026-01-31T18:00:00Z nor an age such as 90m, 24h or 7d", text)
	}
	return at, nil
}

// globPattern returns a pattern for a whole order number. A backslash makes the next
// character literal.
func globPattern(glob string) *regexp.Regexp {
	var text strings.Builder
	escaped := false
	for _, r := range glob {
		switch {
		case escaped:
			text.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			text.WriteString(".*")
		case r == '?':
			text.WriteString(".")
		default:
			text.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile(`(?s)\A` + text.String() + `\z`)
}

// empty reports whether the filter selects every letter.
func (f *filter) empty() bool {
	return len(f.outcomes)+len(f.statuses) == 0 && f.reason+f.batch+f.match+f.since+f.until == ""
}

// journaled adds to about which letters the filter selects.
func (f *filter) journaled(about journal.About, last uint64) journal.About {
	about.LastSeq, about.Filter = last, make(map[string][]string)
	set := func(name string, values ...string) {
		if len(values) > 0 && values[0] != "" {
			about.Filter[name] = values
		}
	}
	moment := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format(time.RFC3339Nano)
	}
	set("outcome", f.outcomes...)
	set("status", f.statuses...)
	set("reason", f.reason)
	set("batch", f.batch)
	set("since", moment(f.begin))
	set("until", moment(f.end))
	set("order-no", f.match)
	if no, one := literal(f.match); one {
		about.OrderNo = no
	} else {
		about.Batch = f.batch
	}
	if len(about.Filter) == 0 {
		set("all", "true")
	}
	return about
}

// literal returns the order number that a pattern selects, if it selects no
// other.
func literal(glob string) (orderNo string, one bool) {
	var text strings.Builder
	escaped := false
	for _, r := range glob {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
			continue
		case r == '*' || r == '?':
			return "", false
		}
		text.WriteRune(r)
	}
	return text.String(), text.Len() > 0
}

func (f *filter) selects(l *settle.Letter) bool {
	inStatus := func(r statusRange) bool { return r.low <= l.Status && l.Status <= r.high }
	switch {
	case len(f.byOutcome) > 0 && !slices.Contains(f.byOutcome, l.Outcome),
		len(f.byStatus) > 0 && !slices.ContainsFunc(f.byStatus, inStatus),
		f.batch != "" && f.batch != l.Batch,
		f.reason != "" && !strings.Contains(strings.ToLower(l.Reason), strings.ToLower(f.reason)),
		f.byOrderNo != nil && !f.byOrderNo.MatchString(l.OrderNo),
		!f.begin.IsZero() && l.FiledAt.Before(f.begin),
		!f.end.IsZero() && !l.FiledAt.Before(f.end):
		return false
	}
	return true
}
