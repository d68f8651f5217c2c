package order

import "time"

// End says why a visit (one delivery's stay in a worker) ended.
type End uint8

// The ends of a visit.
const (
	EndNone End = iota
	// EndAnswer: the last attempt's verdict settles the order (accepted,
	// duplicate, rejected), or is an unsure one that the policy parks.
	EndAnswer
	// EndVisitBudget: this visit's attempts or time are spent on a passing
	// fault; the total budget is not. The intent goes back with a delay.
	EndVisitBudget
	// EndTotalBudget: the total attempts or age are spent.
	EndTotalBudget
	// EndDeadline: the order's own deadline passed.
	EndDeadline
	// EndHandBack: the visit was ended for a reason that is not the order's:
	// shutdown, a closed gate, a denied credential, a recalled refusal.
	EndHandBack
	// EndLeaseLost: the claim may have passed to another worker; nothing but
	// a merge of what is known may be written (protocol R7).
	EndLeaseLost
	// EndInvalid: the intent can never be sent. No attempt was made in this visit.
	EndInvalid
	// EndPoison: the intent took its worker down repeatedly while handled alone.
	EndPoison
)

var endNames = [...]string{"", "answer", "visit-budget", "total-budget", "deadline", "hand-back", "lease-lost", "invalid", "poison"}

// String gives the word used in logs.
func (e End) String() string { return nameOf(endNames[:], int(e)) }

// Report is what a visit found out: the input of [Decide].
type Report struct {
	End End
	// Verdict, Final, Status, Response, Reason and Error describe the last
	// attempt of this visit. Final: the matching rule says that the answer
	// proves that nothing exists at the API under this order_no.
	Verdict  Verdict
	Final    bool
	Status   int
	Response string
	Reason   string
	Error    string
	// History is cumulative: what was known before the visit plus this visit.
	History History
	// Delay is the wait wanted before the next visit (EndVisitBudget).
	Delay time.Duration
	// Trail lists this visit's attempts, oldest first, bounded.
	Trail []Attempt
}

// Policy says what happens to an order after an unsure attempt.
type Policy uint8

// The policies of ORDERPOST_ON_UNSURE.
const (
	// Resubmit asks again with the same order_no. Safe where the API refuses
	// or recognises a duplicate order_no, and only there.
	Resubmit Policy = iota
	// Park never posts an order again after an unsure attempt; a person settles it.
	Park
)

var policyNames = [...]string{"resubmit", "park"}

// String gives the setting's word.
func (p Policy) String() string { return nameOf(policyNames[:], int(p)) }

// MarshalText implements encoding.TextMarshaler.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Policy) UnmarshalText(text []byte) error {
	for i, name := range policyNames {
		if name == string(text) {
			*p = Policy(i)
			return nil
		}
	}
	return &EnumError{Kind: "policy", Seen: string(text), Known: policyNames[:]}
}
