package order

import "fmt"

// Verdict says what one attempt (one HTTP request) did at the API. The set is
// closed. Its words are the same in rules files, records, metrics and logs.
type Verdict uint8

// The verdicts of an attempt. VerdictNone, the zero value, means that no attempt was
// made.
const (
	VerdictNone Verdict = iota
	// Accepted: the API created the order.
	Accepted
	// Duplicate: the API says that it already has an order with this order_no.
	Duplicate
	// Rejected: the API refused this order for good. Another attempt is useless.
	Rejected
	// Retry: the attempt certainly had no effect and may be repeated.
	Retry
	// Unsure: the attempt may have created the order.
	Unsure
	// Denied: the API refused the credentials (401, 403 or by rule).
	Denied
)

var verdictNames = [...]string{"", "accepted", "duplicate", "rejected", "retry", "unsure", "denied"}

// Verdicts lists every verdict but VerdictNone, for label values and tables.
func Verdicts() []Verdict {
	return []Verdict{Accepted, Duplicate, Rejected, Retry, Unsure, Denied}
}

// LeavesDoubt reports whether an attempt with this verdict may have created the order
// without anybody knowing. Every verdict does that is not named here, so a new one
// cannot end an order as "not created" before somebody has decided what it means.
func (v Verdict) LeavesDoubt() bool {
	switch v {
	case VerdictNone, Accepted, Duplicate, Rejected, Retry, Denied:
		return false
	default:
		return true
	}
}

// String returns the verdict's word, or "" for VerdictNone.
func (v Verdict) String() string { return nameOf(verdictNames[:], int(v)) }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. An unknown word is an
// error that lists the known ones.
func (v *Verdict) UnmarshalText(text []byte) error {
	i, err := indexOf("verdict", verdictNames[:], string(text))
	*v = Verdict(i)
	return err
}

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("out-of-range(%d)", i)
	}
	return names[i]
}

func indexOf(kind string, names []string, word string) (int, error) {
	for i, name := range names {
		if name == word {
			return i, nil
		}
	}
	return 0, &EnumError{Kind: kind, Seen: word, Known: names[1:]}
}

// EnumError reports a word that does not belong to a closed set.
type EnumError struct {
	Kind  string   // the name of the set
	Seen  string   // the word that was read
	Known []string // the words of the set
}

// Error returns a message with the word and the known words.
func (e *EnumError) Error() string {
	return fmt.Sprintf("unknown %s %q: expected one of %q", e.Kind, e.Seen, e.Known)
}
