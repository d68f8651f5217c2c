package order

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryDecision goes through every end, verdict, doubt, proof, policy and claim.
func TestEveryDecision(t *testing.T) {
	bools := []bool{false, true}
	for end := EndNone; end <= EndAbsent; end++ {
		for _, verdict := range append([]Verdict{VerdictNone}, Verdicts()...) {
			for _, policy := range []Policy{Resubmit, Park} {
				for bits := range 16 {
					on := func(i int) bool { return bools[bits>>i&1] }
					r := Report{End: end, Verdict: verdict, Final: on(0), History: History{Attempts: 1, Unsure: on(1)}}
					f := Facts{Policy: policy, FirstProven: on(2), Allowed: on(3)}
					before := r
					s := Decide(&r, f)
					require.Equal(t, before, r)
					requireRules(t, r, f, s, fmt.Sprintf("%+v, %+v → %+v", r, f, s))
				}
			}
		}
	}
}

func requireRules(t *testing.T, r Report, f Facts, s Settlement, what string) {
	t.Helper()
	if r.History.Unsure && !r.Final {
		require.NotEqual(t, "no", s.Outcome.Created(), what)
		require.True(t, s.Unsure || s.Outcome == OutcomeAccepted, "doubt is dropped: %s", what)
	}
	if r.Verdict == Accepted {
		require.Equal(t, OutcomeAccepted, s.Outcome, what)
		require.False(t, s.Unsure, what)
	}
	ours := r.Verdict == Duplicate && r.History.Unsure
	switch s.Outcome {
	case OutcomeAccepted:
		require.True(t, r.Verdict == Accepted || ours, what)
	case OutcomeRejected:
		require.True(t, r.Verdict == Rejected || r.Verdict == Duplicate && f.FirstProven, what)
	case OutcomeUnknown:
		require.True(t, s.Unsure, what)
	}
	require.Equal(t, r.End == EndLeaseLost, s.Action == ActMerge, what)
	require.Equal(t, s.Action == ActSettle, s.Outcome != OutcomeNone && s.Action != ActMerge, what)
	if s.Action == ActMerge {
		require.Contains(t, []Outcome{OutcomeNone, OutcomeAccepted}, s.Outcome, what)
	}
	if (r.End == EndHandBack || r.End == EndNone) && r.Verdict != Accepted {
		require.Equal(t, ActHandBack, s.Action, what)
	}
}

// TestAVerdictThatNobodyDecidedAboutLeavesDoubt: whoever adds a verdict and forgets
// Decide gets unknown orders, and no wrong "not created".
func TestAVerdictThatNobodyDecidedAboutLeavesDoubt(t *testing.T) {
	added := Verdict(len(verdictNames))
	require.True(t, added.LeavesDoubt())
	for end := EndNone; end <= EndAbsent; end++ {
		for _, policy := range []Policy{Resubmit, Park} {
			s := Decide(&Report{End: end, Verdict: added, History: History{Attempts: 1}}, Facts{Policy: policy, FirstProven: true})
			require.Contains(t, []Outcome{OutcomeNone, OutcomeUnknown}, s.Outcome, "%s, %v", end, policy)
			require.True(t, s.Unsure, "%s, %v", end, policy)
		}
	}
}

func TestDecisions(t *testing.T) {
	unsure := History{Attempts: 2, Unsure: true}
	sure := History{Attempts: 1}
	for name, c := range map[string]struct {
		r Report
		f Facts
		s Settlement
	}{
		"refused":                                    {Report{End: EndAnswer, Verdict: Rejected, History: sure}, Facts{}, Settlement{ActSettle, OutcomeRejected, false}},
		"refused after doubt":                        {Report{End: EndAnswer, Verdict: Rejected, History: unsure}, Facts{}, Settlement{ActSettle, OutcomeUnknown, true}},
		"refused with proof":                         {Report{End: EndAnswer, Verdict: Rejected, Final: true, History: unsure}, Facts{}, Settlement{ActSettle, OutcomeRejected, false}},
		"duplicate of ours":                          {Report{End: EndAnswer, Verdict: Duplicate, History: unsure}, Facts{}, Settlement{ActSettle, OutcomeAccepted, false}},
		"duplicate of somebody else's":               {Report{End: EndAnswer, Verdict: Duplicate, History: sure}, Facts{FirstProven: true}, Settlement{ActSettle, OutcomeRejected, false}},
		"duplicate of nobody knows whose":            {Report{End: EndAnswer, Verdict: Duplicate, History: sure}, Facts{}, Settlement{ActSettle, OutcomeUnknown, true}},
		"unsure, parked":                             {Report{End: EndAnswer, Verdict: Unsure, History: unsure}, Facts{Policy: Park}, Settlement{ActSettle, OutcomeUnknown, true}},
		"submission over, retry":                     {Report{End: EndSubmissionBudget, Verdict: Retry, History: sure}, Facts{}, Settlement{ActDelay, OutcomeNone, false}},
		"submission over in doubt, resubmit":         {Report{End: EndSubmissionBudget, Verdict: Retry, History: unsure}, Facts{}, Settlement{ActDelay, OutcomeNone, true}},
		"submission over in doubt, park":             {Report{End: EndSubmissionBudget, Verdict: Retry, History: unsure}, Facts{Policy: Park}, Settlement{ActSettle, OutcomeUnknown, true}},
		"submission over, allowed by a person, park": {Report{End: EndSubmissionBudget, Verdict: Retry, History: unsure}, Facts{Policy: Park, Allowed: true}, Settlement{ActDelay, OutcomeNone, true}},
		"exhausted":                                  {Report{End: EndTotalBudget, Verdict: Retry, History: sure}, Facts{}, Settlement{ActSettle, OutcomeExhausted, false}},
		"expired in doubt":                           {Report{End: EndDeadline, History: unsure}, Facts{}, Settlement{ActSettle, OutcomeUnknown, true}},
		"poison":                                     {Report{End: EndPoison}, Facts{}, Settlement{ActSettle, OutcomePoison, false}},
		"poison in doubt":                            {Report{End: EndPoison, History: unsure}, Facts{}, Settlement{ActSettle, OutcomeUnknown, true}},
		"invalid":                                    {Report{End: EndInvalid}, Facts{}, Settlement{ActSettle, OutcomeInvalid, false}},
		"refused, lease lost":                        {Report{End: EndLeaseLost, Verdict: Rejected, History: sure}, Facts{}, Settlement{ActMerge, OutcomeNone, false}},
		"accepted, lease lost":                       {Report{End: EndLeaseLost, Verdict: Accepted, History: unsure}, Facts{}, Settlement{ActMerge, OutcomeAccepted, false}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.s, Decide(&c.r, c.f)) })
	}
}
