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

// Created reports whether the API created the order by this attempt.
func (v Verdict) Created() bool { return v == Accepted }

// Exists reports whether the API has the order, by this attempt or an earlier one.
func (v Verdict) Exists() bool { return v == Accepted || v == Duplicate }

// Conclusive reports whether the API read the order and decided about it.
func (v Verdict) Conclusive() bool { return v.Exists() || v == Rejected }

// Meaning says, for people, what the attempt did at the API.
func (v Verdict) Meaning() string {
	switch v {
	case Accepted:
		return "the API created the order"
	case Duplicate:
		return "the API says that it has this order_no already"
	case Rejected:
		return "the API refused the order; it was not created by this attempt"
	case Retry:
		return "certainly without effect"
	case Unsure:
		return "may have created the order"
	case Denied:
		return "the API refused the key and did not read the order"
	default:
		return ""
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

// Outcome is the recorded end of an intent. The set is closed. Its words are the
// same in results, headers, metrics, logs and documents.
type Outcome uint8

// The outcomes. OutcomeNone, the zero value, means that the intent is not settled.
const (
	OutcomeNone Outcome = iota
	// OutcomeAccepted: the API created the order, now or by an earlier attempt of ours.
	OutcomeAccepted
	// OutcomeRejected: the API refused this order for good and did not create it.
	OutcomeRejected
	// OutcomeExhausted: the retry budget is spent. No attempt had an effect.
	OutcomeExhausted
	// OutcomeExpired: the order's deadline passed before it was sent.
	OutcomeExpired
	// OutcomeInvalid: the intent can never be sent.
	OutcomeInvalid
	// OutcomePoison: the intent repeatedly crashed its worker before any attempt.
	OutcomePoison
	// OutcomeCancelled: a person withdrew the intent before the order was created.
	OutcomeCancelled
	// OutcomeUnknown: an attempt may have created the order, and nothing has resolved the doubt.
	OutcomeUnknown
)

var outcomeNames = [...]string{"", "accepted", "rejected", "exhausted", "expired", "invalid", "poison", "cancelled", "unknown"}

// Outcomes lists every outcome but OutcomeNone, for label values and tables.
func Outcomes() []Outcome {
	return []Outcome{OutcomeAccepted, OutcomeRejected, OutcomeExhausted, OutcomeExpired,
		OutcomeInvalid, OutcomePoison, OutcomeCancelled, OutcomeUnknown}
}

// String returns the outcome's word, or "" for OutcomeNone.
func (o Outcome) String() string { return nameOf(outcomeNames[:], int(o)) }

// MarshalText implements encoding.TextMarshaler.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. An unknown word is an
// error that lists the known ones.
func (o *Outcome) UnmarshalText(text []byte) error {
	i, err := indexOf("outcome", outcomeNames[:], string(text))
	*o = Outcome(i)
	return err
}

// NeedsLetter reports whether an order with this outcome also gets a dead letter.
// Failed and unknown orders do. Accepted and cancelled ones do not.
func (o Outcome) NeedsLetter() bool {
	return o != OutcomeNone && o != OutcomeAccepted && o != OutcomeCancelled
}

// Created returns whether the order exists at the API: "yes", "no" or "unknown".
func (o Outcome) Created() string {
	switch o {
	case OutcomeAccepted:
		return "yes"
	case OutcomeRejected, OutcomeExhausted, OutcomeExpired, OutcomeInvalid, OutcomePoison, OutcomeCancelled:
		return "no"
	default: // nobody may claim that an order does not exist by forgetting an outcome here
		return "unknown"
	}
}

// Meaning returns one sentence for people. A test compares the README's outcome
// table with it.
func (o Outcome) Meaning() string {
	switch o {
	case OutcomeAccepted:
		return "the API created the order, now or by an earlier attempt of ours"
	case OutcomeRejected:
		return "the API refused this order for good"
	case OutcomeExhausted:
		return "retry budget spent, every attempt certainly without effect"
	case OutcomeExpired:
		return "its deadline passed before it was sent"
	case OutcomeInvalid:
		return "it can never be sent (not JSON, no order_no, inexact number, …)"
	case OutcomePoison:
		return "it took its worker down repeatedly"
	case OutcomeCancelled:
		return "withdrawn by a person before it was created"
	case OutcomeUnknown:
		return "an attempt may have created it, and nothing has settled the doubt"
	default:
		return "not settled"
	}
}
