package deadletter

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// LetterFilter selects dead letters, as people write it in flags and addresses. An
// empty field selects all.
type LetterFilter struct {
	Outcomes, Statuses     []string
	Reason, Batch, OrderNo string
	// Answer selects by what the answer itself says (settle.Letter.Said).
	Answer       string
	Since, Until string
}

// Empty reports whether the filter selects every letter.
func (f *LetterFilter) Empty() bool {
	return len(f.Outcomes)+len(f.Statuses) == 0 && f.Reason+f.Answer+f.Batch+f.OrderNo+f.Since+f.Until == ""
}

// texts returns the fields that hold a text, and lists those that hold several, by the names of their flags.
func (f *LetterFilter) texts() map[string]*string {
	return map[string]*string{"reason": &f.Reason, "answer": &f.Answer, "batch": &f.Batch, "since": &f.Since, "until": &f.Until, "order-no": &f.OrderNo}
}

func (f *LetterFilter) lists() map[string]*[]string {
	return map[string]*[]string{"outcome": &f.Outcomes, "status": &f.Statuses}
}

// Values returns the filter by the names of its flags, as it was written.
func (f *LetterFilter) Values() map[string][]string {
	values := make(map[string][]string)
	for name, list := range f.lists() {
		values[name] = *list
	}
	for name, text := range f.texts() {
		values[name] = []string{*text}
	}
	maps.DeleteFunc(values, func(_ string, texts []string) bool { return strings.Join(texts, "") == "" })
	return values
}

// Fields is Values for the record: ages are given as the times that m has read. It returns
// all=true for every letter.
func (f *LetterFilter) Fields(m *LetterMatcher) map[string][]string {
	fields := f.Values()
	for name, at := range map[string]time.Time{"since": m.begin, "until": m.end} {
		if !at.IsZero() {
			fields[name] = []string{at.UTC().Format(time.RFC3339Nano)}
		}
	}
	if len(fields) == 0 {
		fields["all"] = []string{"true"}
	}
	return fields
}

// FilterOf is the reverse of Fields. It refuses a field that this version does not know: the
// filter would select more without it.
func FilterOf(fields map[string][]string) (f LetterFilter, err error) {
	texts, lists := f.texts(), f.lists()
	for name, values := range fields {
		if text := texts[name]; text != nil {
			*text = strings.Join(values, "")
		} else if list := lists[name]; list != nil {
			*list = values
		} else if name != "all" {
			return f, fmt.Errorf("the filter %s is not known here", name)
		}
	}
	return f, nil
}

// Only returns the order number that the filter selects, if it can select no other.
func (f *LetterFilter) Only() (orderNo string, one bool) {
	if f.OrderNo == "" {
		return "", false
	}
	return newGlob(f.OrderNo).literal()
}

// FilterError is a mistake in one field of a LetterFilter.
type FilterError struct {
	// Field is the field's flag without dashes, such as order-no.
	Field string
	Err   error
}

// Error implements error.
func (e *FilterError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the mistake without the field.
func (e *FilterError) Unwrap() error { return e.Err }

// LetterKind is what many letters have in common.
type LetterKind struct {
	Outcome             order.Outcome
	Status              int
	Reason, Said, Batch string
}

func kindOf(l *settle.Letter) LetterKind {
	return LetterKind{Outcome: l.Outcome, Status: l.Status, Reason: l.Reason, Said: l.Said, Batch: l.Batch}
}

// LetterMatcher is a LetterFilter that was read.
type LetterMatcher struct {
	outcomes            []order.Outcome
	statuses            []statusRange
	reason, said, batch string
	orderNo             glob
	begin, end          time.Time
}

type statusRange struct{ low, high int }

// Compile reads the fields. The errors name every mistake.
func (f *LetterFilter) Compile(now time.Time) (*LetterMatcher, []*FilterError) {
	m := &LetterMatcher{reason: strings.ToLower(f.Reason), said: strings.ToLower(f.Answer), batch: f.Batch}
	var wrong []*FilterError
	note := func(field string, err error) {
		if err != nil {
			wrong = append(wrong, &FilterError{field, err})
		}
	}
	for _, word := range f.Outcomes {
		var o order.Outcome
		err := o.UnmarshalText([]byte(word))
		if err == nil && !o.NeedsLetter() {
			err = fmt.Errorf("an order that is %s has no dead letter", word)
		}
		note("outcome", err)
		m.outcomes = append(m.outcomes, o)
	}
	for _, text := range f.Statuses {
		r, err := readStatus(text)
		note("status", err)
		m.statuses = append(m.statuses, r)
	}
	var err error
	m.begin, err = ReadTime(f.Since, now)
	note("since", err)
	m.end, err = ReadTime(f.Until, now)
	note("until", err)
	if f.OrderNo != "" {
		m.orderNo = newGlob(f.OrderNo)
	}
	return m, wrong
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

// ReadTime reads a time in RFC 3339, or an age such as 90m, 24h or 7d; zero if text is
// empty.
func ReadTime(text string, now time.Time) (time.Time, error) {
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

// Selects reports whether the filter selects the letter.
func (m *LetterMatcher) Selects(l *settle.Letter) bool {
	return m.kind(kindOf(l)) && m.name(l.OrderNo) && m.filed(l.FiledAt)
}

func (m *LetterMatcher) kind(k LetterKind) bool {
	inStatus := func(r statusRange) bool { return r.low <= k.Status && k.Status <= r.high }
	switch {
	case len(m.outcomes) > 0 && !slices.Contains(m.outcomes, k.Outcome),
		len(m.statuses) > 0 && !slices.ContainsFunc(m.statuses, inStatus),
		m.batch != "" && m.batch != k.Batch,
		m.said != "" && !strings.Contains(strings.ToLower(k.Said), m.said),
		m.reason != "" && !strings.Contains(strings.ToLower(k.Reason), m.reason):
		return false
	}
	return true
}

func (m *LetterMatcher) name(orderNo string) bool {
	return m.orderNo == nil || m.orderNo.matches(orderNo)
}

func (m *LetterMatcher) filed(at time.Time) bool {
	return (m.begin.IsZero() || !at.Before(m.begin)) && (m.end.IsZero() || at.Before(m.end))
}
