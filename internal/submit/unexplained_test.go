package submit

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// An answer that no rule explained is kept, and the first rule that explains it decides about the order: nothing is posted
// for that, and no person is asked.
func TestAnUnexplainedAnswerIsJudgedByTheNextRules(t *testing.T) {
	for _, c := range []struct {
		rule  string
		want  order.Outcome
		posts int
	}{
		{"verdict: accepted", order.OutcomeAccepted, 1},
		{"verdict: rejected", order.OutcomeRejected, 1},
		{"verdict: retry", order.OutcomeAccepted, 2},
	} {
		for _, policy := range []order.Policy{order.Park, order.Resubmit} {
			t.Run(c.rule+" under "+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, func(call call) reply {
						if call.n == 1 {
							return reply{status: 200, body: `{"state":"queued for review"}`}
						}
						return reply{}
					}, func(c *Config) { c.OnUnsure = policy })
					first := *r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n")})
					require.Equal(t, order.Settlement{Action: order.ActHandBack, Unsure: true}, decide(first, order.Facts{Policy: policy}))
					require.Contains(t, first.History.Recalled.WhatSaid(), "no rule explains it")

					r.judge.Rules = mustRules(t, "rules:\n  - when: status == 200 and body.state == \"queued for review\"\n    "+c.rule+"\n")
					r.gate.RulesChanged()
					next := *r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: first.History})
					require.Equal(t, c.want, decide(next, order.Facts{Policy: policy}).Outcome)
					posts, _ := r.api.calls()
					require.Equal(t, c.posts, posts)
				})
			})
		}
	}
}

// Without a rule, a person who resumes ends the wait: under park the order is unknown.
func TestAnUnexplainedAnswerThatNobodyExplains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 200, body: `{"state":"queued for review"}`} }, func(c *Config) { c.OnUnsure = order.Park })
		first := r.one("n")
		r.gate.Resume()
		next := *r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: first.History})
		require.Equal(t, order.OutcomeUnknown, decide(next, order.Facts{Policy: order.Park}).Outcome)
	})
}
