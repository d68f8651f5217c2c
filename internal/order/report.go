package order

import "time"

// End says why a submission ended.
type End uint8

// The ends of a submission.
const (
	EndNone End = iota
	// EndAnswer: the last attempt's verdict settles the order (accepted,
	// duplicate, rejected), or it is unsure and the policy parks the order.
	EndAnswer
	// EndSubmissionBudget: a passing fault used up the attempts or the time of this
	// submission, but not the total budget. The intent goes back with a delay.
	EndSubmissionBudget
	// EndTotalBudget: the total attempts or the total age are used up.
	EndTotalBudget
	// EndDeadline: the order's own deadline passed.
	EndDeadline
	// EndHandBack: the submission ended for a reason outside the order, such as a
	// shutdown, a closed gate, a denied key or a recalled refusal.
	EndHandBack
	// EndLeaseLost: another worker may hold the claim. The worker may only merge
	// what it knows into the record (R7).
	EndLeaseLost
	// EndInvalid: the intent can never be sent. This submission made no attempt.
	EndInvalid
	// EndPoison: the intent repeatedly crashed its worker while handled alone.
	EndPoison
	// EndCancelled: a person withdrew the order before an attempt that may have created it.
	EndCancelled
)

var endNames = [...]string{"", "answer", "submission-budget", "total-budget", "deadline", "hand-back", "lease-lost", "invalid", "poison", "cancelled"}

// String returns the word used in logs.
func (e End) String() string { return nameOf(endNames[:], int(e)) }

// Report is the result of a submission and the input of [Decide].
type Report struct {
	End End
	// Verdict, Final, Status, Response, Reason, Said and Error describe the last attempt
	// of this submission. Final says that the matching rule takes the answer as
	// proof that no order exists under this order_no.
	Verdict  Verdict
	Final    bool
	Status   int
	Response string
	Reason   string
	Said     string
	Error    string
	// History covers all submissions, this one included.
	History History
	// Delay is the wait before the next submission (EndSubmissionBudget).
	Delay time.Duration
	// Trail lists the last attempts of this submission, oldest first.
	Trail []Attempt
}

// Policy says what happens to an order after an unsure attempt.
type Policy uint8

// The policies of ORDERPOST_ON_UNSURE.
const (
	// Resubmit posts the order again with the same order_no. It is safe only if the
	// API refuses or recognises a duplicate order_no.
	Resubmit Policy = iota
	// Park never posts an order again after an unsure attempt. A person settles it.
	Park
)

var policyNames = [...]string{"resubmit", "park"}

// String returns the setting's word.
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
