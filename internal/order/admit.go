package order

// Admission says how an intent stands to the last word on its order_no (R6). It
// states facts. What follows from them is the caller's policy: a worker's for a
// delivery, an import's for a row, a replay's for a dead letter.
type Admission struct {
	Standing Standing
	Bodies   Bodies
}

// Standing is what the last word says about an intent.
type Standing uint8

// The standings. "Itself" is about this very intent, "before" about another one
// of the same order_no.
const (
	// NothingKnown: there is no record.
	NothingKnown Standing = iota
	// SettledItself: this intent has its outcome.
	SettledItself
	// OpenItself: a note says that this intent is being worked on.
	OpenItself
	// OpenBefore: a note says so of another intent, which is gone or pending.
	OpenBefore
	// AcceptedBefore: the order exists.
	AcceptedBefore
	// DoubtBefore: nobody knows whether the order exists, and nobody allowed this
	// intent.
	DoubtBefore
	// AllowedBefore: the same, and a person allowed this intent.
	AllowedBefore
	// FailedBefore: the order certainly does not exist; another intent may follow.
	FailedBefore
)

// Bodies compares the intent's body with the record's.
type Bodies uint8

// The comparisons.
const (
	// NotComparable: one of the two is not known, or can never be sent.
	NotComparable Bodies = iota
	// SameBody: the canonical bodies are equal, but for the timestamp.
	SameBody
	// OtherBody: they differ.
	OtherBody
)

// Admit compares an intent with the last word on its order_no. last is nil where
// there is none. intentID is empty for an intent that has no id yet, bodyHash for
// one whose body can never be sent.
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
	case outcome == OutcomeNone:
		a.Standing = OpenBefore
	case outcome == OutcomeAccepted:
		a.Standing = AcceptedBefore
	case outcome == OutcomeUnknown && last.Allows(intentID):
		a.Standing = AllowedBefore
	case outcome == OutcomeUnknown:
		a.Standing = DoubtBefore
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
