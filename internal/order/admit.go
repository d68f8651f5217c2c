package order

// Admission relates an intent to the last record of its order_no (R6). It states
// facts. Each caller decides what follows: the worker for a delivery, the import
// for a row, the replay for a dead letter.
type Admission struct {
	Standing Standing
	Bodies   Bodies
}

// Standing says what the last record says about an intent.
type Standing uint8

// The standings. "Itself" refers to this intent, "Before" to another intent with
// the same order_no.
const (
	// NothingKnown: there is no record.
	NothingKnown Standing = iota
	// SettledItself: this intent has an outcome.
	SettledItself
	// OpenItself: the record is a note about this intent.
	OpenItself
	// OpenBefore: the record is a note about another intent, pending or gone. If it is in
	// doubt, this intent has its body.
	OpenBefore
	// AcceptedBefore: the order exists.
	AcceptedBefore
	// DoubtBefore: it is unknown whether the order exists, and no person allowed
	// this intent.
	DoubtBefore
	// AllowedBefore: it is unknown whether the order exists, and a person allowed
	// this intent, whose body is the one in doubt.
	AllowedBefore
	// FailedBefore: the order certainly does not exist. Another intent may follow.
	FailedBefore
)

// Bodies compares the intent's body with the record's.
type Bodies uint8

// The comparisons.
const (
	// NotComparable: one body is unknown or can never be sent.
	NotComparable Bodies = iota
	// SameBody: the canonical bodies without timestamp are equal.
	SameBody
	// OtherBody: the canonical bodies without timestamp differ.
	OtherBody
)

// Admit compares an intent with the last record of its order_no, which is nil if
// there is none. intentID is empty for an intent that has no id yet. bodyHash is
// empty for a body that can never be sent.
func Admit(last *Record, intentID, bodyHash string) Admission {
	if last == nil {
		return Admission{}
	}
	a := Admission{Bodies: compareBodies(last.BodyHash, bodyHash)}
	outcome, itself := last.Outcome(), last.IntentID == intentID
	switch {
	case last.Settles(intentID):
		a.Standing = SettledItself
	case itself:
		a.Standing = OpenItself
	case outcome == OutcomeAccepted:
		a.Standing = AcceptedBefore
	case last.Doubtful() && last.Allows(intentID) && a.Bodies == SameBody:
		a.Standing = AllowedBefore
	case outcome == OutcomeUnknown, last.Doubtful() && a.Bodies != SameBody:
		a.Standing = DoubtBefore
	case outcome == OutcomeNone:
		a.Standing = OpenBefore
	default:
		a.Standing = FailedBefore
	}
	return a
}

func compareBodies(a, b string) Bodies {
	switch {
	case a == "" || b == "":
		return NotComparable
	case a == b:
		return SameBody
	default:
		return OtherBody
	}
}
