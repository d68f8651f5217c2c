package oracle

import (
	"fmt"
	"slices"
)

// The invariants, as named in findings.
const (
	OneOutcome   = "one outcome per intent"
	AcceptedOnce = "accepted is never posted again"
	Explained    = "every further POST is explained"
	Park         = "park never posts again after an unsure attempt"
	True         = "outcomes are true"
	Stays        = "an outcome changes only by a new intent, a person, or proof of acceptance"
	Conditional  = "a record replaces the one that its writer read"
	OneClaim     = "no two claims act at once"
	Delay        = "a delay is kept"
	Poison       = "poison is proven alone"
	Letters      = "every failure has its letter, which its record names"
	AckLast      = "an intent is acknowledged only after its outcome is stored"
	Reason       = "unknown has a reason"
	Storage      = "nothing is posted while results are refused"
	Stamped      = "each attempt is stamped anew"
	Moved        = "a move stores an intent once and loses none"
	Own          = "a record says what is true of its intent"
	Cancelled    = "cancelled is what a person withdrew, and is not posted"
	Settled      = "everything is settled in the end"
)

// rules names the rule of docs/protocol.md that each invariant watches, and what it
// relies on besides.
var rules = map[string]string{
	OneOutcome: "R11", AcceptedOnce: "R2", Explained: "R2", Park: "R3", True: "R3", Stays: "R1", Conditional: "R1", OneClaim: "R7", Delay: "R9",
	Poison: "R8", Letters: "R4", AckLast: "R4", Reason: "R3", Storage: "R10", Stamped: "the order of the last steps in docs/signing.md", Moved: "R13", Own: "R6", Cancelled: "R15", Settled: "R11",
}

// Invariants lists the invariants.
func Invariants() []string {
	all := make([]string, 0, len(rules))
	for name := range rules {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Finding is a broken invariant.
type Finding struct {
	Invariant string `json:"invariant"`
	OrderNo   string `json:"order_no"`
	Detail    string `json:"detail"`
	// Lines are the lines of the history that show it, if it was read from a file.
	Lines []int `json:"lines,omitempty"`
}

// Rule returns the rule of docs/protocol.md that is broken.
func (f Finding) Rule() string { return rules[f.Invariant] }

// String returns one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: order %s: %s", f.Invariant, f.OrderNo, f.Detail)
}

// find adds a finding. lines may contain 0 and repeat itself.
func (o *Oracle) find(invariant, no string, lines []int, format string, args ...any) {
	f := Finding{Invariant: invariant, OrderNo: no, Detail: fmt.Sprintf(format, args...)}
	lines = append(lines, o.line)
	slices.Sort(lines)
	for _, n := range slices.Compact(lines) {
		if n > 0 {
			f.Lines = append(f.Lines, n)
		}
	}
	o.Findings = append(o.Findings, f)
	if o.OnFinding != nil {
		o.OnFinding(f)
	}
}
