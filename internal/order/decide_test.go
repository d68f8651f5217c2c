package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// decideCase is one line of the whole table: every end, verdict, doubt, proof,
// policy and claim.
type decideCase struct {
	r Report
	f Facts
}

func eachDecision(t *testing.T, check func(t *testing.T, c decideCase, s Settlement)) {
	t.Helper()
	n := 0
	bools := []bool{false, true}
	for end := EndNone; end <= EndPoison; end++ {
		for _, verdict := range append([]Verdict{VerdictNone}, Verdicts()...) {
			for _, policy := range []Policy{Resubmit, Park} {
				for bits := range 16 {
					on := func(i int) bool { return bools[bits>>i&1] }
					c := decideCase{
						Report{End: end, Verdict: verdict, Final: on(0), History: History{Attempts: 1, Unsure: on(1)}},
						Facts{Policy: policy, FirstProven: on(2), Allowed: on(3)},
					}
					before := c.r
					s := Decide(&c.r, c.f)
					require.Equal(t, before, c.r)
					check(t, c, s)
					n++
				}
			}
		}
	}
	require.Equal(t, 9*7*2*16, n)
}

func TestR3DoubtNeverEndsAsNotCreated(t *testing.T) {
	eachDecision(t, func(t *testing.T, c decideCase, s Settlement) {
		if c.r.History.Unsure && !c.r.Final {
			require.NotEqual(t, "no", s.Outcome.Created(), "%+v → %+v", c, s)
			require.True(t, s.Unsure || s.Outcome == OutcomeAccepted, "doubt is dropped: %+v → %+v", c, s)
		}
	})
}

// TestAVerdictThatNobodyDecidedAboutLeavesDoubt: whoever adds a verdict and forgets
// Decide gets unknown orders, and no wrong "not created".
func TestAVerdictThatNobodyDecidedAboutLeavesDoubt(t *testing.T) {
	added := Verdict(len(verdictNames))
	require.True(t, added.LeavesDoubt())
	for end := EndNone; end <= EndPoison; end++ {
		for _, policy := range []Policy{Resubmit, Park} {
			s := Decide(&Report{End: end, Verdict: added, History: History{Attempts: 1}}, Facts{Policy: policy, FirstProven: true})
			require.Contains(t, []Outcome{OutcomeNone, OutcomeUnknown}, s.Outcome, "%s, %v", end, policy)
			require.True(t, s.Unsure, "%s, %v", end, policy)
		}
	}
}

func TestAnAcceptanceIsNeverLost(t *testing.T) {
	eachDecision(t, func(t *testing.T, c decideCase, s Settlement) {
		if c.r.Verdict == Accepted {
			require.Equal(t, OutcomeAccepted, s.Outcome, "%+v", c)
			require.False(t, s.Unsure)
		}
	})
}

func TestNothingIsAcceptedWithoutProof(t *testing.T) {
	eachDecision(t, func(t *testing.T, c decideCase, s Settlement) {
		if s.Outcome == OutcomeAccepted {
			require.True(t, c.r.Verdict == Accepted || c.r.Verdict == Duplicate && c.r.History.Unsure, "%+v", c)
		}
		if s.Outcome == OutcomeRejected {
			require.True(t, c.r.Verdict == Rejected || c.r.Verdict == Duplicate && c.f.FirstProven, "%+v", c)
		}
	})
}

func TestR7ALostLeaseOnlyMerges(t *testing.T) {
	eachDecision(t, func(t *testing.T, c decideCase, s Settlement) {
		require.Equal(t, c.r.End == EndLeaseLost, s.Action == ActMerge, "%+v", c)
		if s.Action == ActMerge {
			require.Contains(t, []Outcome{OutcomeNone, OutcomeAccepted}, s.Outcome, "%+v", c)
		}
	})
}

func TestAnUnsureAttemptIsNeverForgotten(t *testing.T) {
	eachDecision(t, func(t *testing.T, c decideCase, s Settlement) {
		// The submitter marks the history whenever it says unsure.
		if c.r.Verdict == Unsure && c.r.History.Unsure && !c.r.Final {
			require.True(t, s.Unsure, "%+v → %+v", c, s)
		}
		require.Equal(t, s.Action == ActSettle, s.Outcome != OutcomeNone && s.Action != ActMerge, "%+v", c)
		if s.Outcome == OutcomeUnknown {
			require.True(t, s.Unsure)
		}
	})
}

func TestAHandBackSettlesNothing(t *testing.T) {
	eachDecision(t, func(t *testing.T, c decideCase, s Settlement) {
		if (c.r.End == EndHandBack || c.r.End == EndNone) && c.r.Verdict != Accepted {
			require.Equal(t, ActHandBack, s.Action, "%+v", c)
		}
	})
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
