package order

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
