package submit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

const (
	wrongRule = "rules:\n  - when: status == 200 && body.code == 40012\n    verdict: rejected\n    reason: out of funds\n" +
		"  - when: status == 200 && body.code == 0\n    verdict: rejected\n    reason: mixed up\n"
	rightRule = "rules:\n  - when: status == 200 && body.code == 40012\n    verdict: rejected\n    reason: out of funds\n" +
		"  - when: status == 200 && body.code == 0\n    verdict: accepted\n"
)

// creates is an API that creates each order once and answers 409 to the next.
func creates() func(call) reply {
	var mu sync.Mutex
	created := map[string]bool{}
	return func(c call) reply {
		mu.Lock()
		defer mu.Unlock()
		if created[c.orderNo] {
			return reply{status: 409, body: `{"error":"duplicate_order","order_no":"` + c.orderNo + `"}`}
		}
		created[c.orderNo] = true
		return reply{body: `{"code":0}`}
	}
}

// again submits an order once more, as its next delivery does.
func (r *rig) again(no string, before order.Report) order.Report {
	return *r.Submit(context.Background(), &order.Submission{Order: newOrder(r.t, no), History: before.History})
}

// A wrong rule: what it called a refusal is doubt, its answer is kept, and the 409 of
// the second attempt is the order's own.
func TestR3ARuleThatIsWrongLeavesDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, creates(), func(c *Config) { c.HoldRetry = 0 })
		r.judge.Rules = mustRules(t, wrongRule)
		reports := r.many("n", 40)
		require.Contains(t, r.Gate().State().Reasons[0], "(rule 2 (rules.yaml:5) said rejected: mixed up; it was answered: ")
		require.Contains(t, r.Gate().State().Reasons[0], "reads the ORDERPOST_RULES file again")
		var posted []int
		for i, rep := range reports {
			require.Equal(t, order.EndHandBack, rep.End)
			if rep.History.Attempts == 0 {
				continue
			}
			posted = append(posted, i)
			k := rep.History.Recalled
			require.True(t, rep.History.Unsure)
			require.True(t, k.Only)
			require.Equal(t, `{"code":0}`, k.Answer)
			require.Equal(t, 200, k.Status)
			require.Equal(t, 2, k.Rule)
			require.Equal(t, "mixed up", k.Reason)
			require.False(t, k.Part)
			require.True(t, rep.Trail[0].CalledBack)
			require.Equal(t, newOrder(t, fmt.Sprint("n-", i)).BodyHash(), k.BodyHash)
		}
		require.GreaterOrEqual(t, len(posted), 20)

		r.gate.RulesChanged() // one order on trial, and the rule is as wrong as before
		rep := r.again(fmt.Sprint("n-", posted[0]), reports[posted[0]])
		require.Equal(t, order.Duplicate, rep.Verdict)
		require.Equal(t, order.OutcomeAccepted, order.Decide(&rep, order.Facts{}).Outcome)
		require.False(t, r.Gate().Open(), "a 409 to what the rule calls a refusal shows that the rule is wrong")
		require.Contains(t, r.Gate().State().Reasons[0], "a rule is wrong: rule 2 (rules.yaml:5)")

		r.judge.Rules = mustRules(t, rightRule)
		before, _ := r.api.calls()
		for _, i := range posted[1:] {
			rep := r.again(fmt.Sprint("n-", i), reports[i])
			require.Equal(t, order.OutcomeAccepted, order.Decide(&rep, order.Facts{}).Outcome)
			require.Equal(t, order.Accepted, rep.Verdict)
			require.Contains(t, rep.Error, "judged again")
			require.False(t, rep.History.Unsure)
		}
		after, _ := r.api.calls()
		require.Equal(t, before, after, "nothing is posted again, though the pool is held")
	})
}

// The rules were right, and the orders are to blame: none ends as unknown.
func TestRefusalsThatWereCalledBackAreRefusedInTheEnd(t *testing.T) {
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(call) reply { return reply{body: `{"code":40012}`} }, func(c *Config) { c.HoldRetry, c.OnUnsure = 0, policy })
				r.judge.Rules = mustRules(t, rightRule)
				reports := r.many("n", 40)
				require.False(t, r.Gate().Open())
				require.Equal(t, order.EndHandBack, r.again("n-0", reports[0]).End, "it waits for a person")
				r.Gate().Resume()
				for i, rep := range reports {
					rep = r.again(fmt.Sprint("n-", i), rep)
					require.Equal(t, order.OutcomeRejected, order.Decide(&rep, order.Facts{Policy: policy}).Outcome, "%d", i)
				}
			})
		})
	}
}

// Under park, what a wrong rule called a refusal is not posted again.
func TestParkPostsNothingThatAWrongRuleMayHaveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, creates(), func(c *Config) { c.HoldRetry, c.OnUnsure = 0, order.Park })
		r.judge.Rules = mustRules(t, wrongRule)
		reports := r.many("n", 30)
		i := slices.IndexFunc(reports, func(rep order.Report) bool { return rep.History.Unsure })
		no, rep := fmt.Sprint("n-", i), reports[i]
		posts, _ := r.api.calls()
		r.gate.RulesChanged()
		rep = r.again(no, rep)
		require.Equal(t, order.EndHandBack, rep.End, "it is not tried while the pool is held")
		doubt := rep
		doubt.History.Doubt("test") // an attempt whose answer was lost
		require.Equal(t, order.OutcomeUnknown, decide(r.again(no, doubt), order.Facts{Policy: order.Park}).Outcome)

		r.judge.Rules = mustRules(t, rightRule)
		require.Equal(t, order.OutcomeAccepted, decide(r.again(no, rep), order.Facts{Policy: order.Park}).Outcome)
		after, _ := r.api.calls()
		require.Equal(t, posts, after)
	})
}

// A status that says by itself that nothing was created leaves no doubt.
func TestARefusalByStatusThatIsCalledBackIsNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refuse, func(c *Config) { c.HoldRetry = 0 })
		reports := r.many("n", 40)
		for _, rep := range reports {
			require.False(t, rep.History.Unsure)
			if rep.History.Attempts > 0 {
				require.Equal(t, `{"message":"no"}`, rep.History.Recalled.Answer, "the answer is kept")
			}
		}
	})
}

// A final rule that may be wrong ends no doubt.
func TestR3AFinalRefusalThatIsCalledBackEndsNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 422} }, func(c *Config) { c.HoldRetry = 0 })
		r.judge.Rules = mustRules(t, "rules:\n  - when: status == 422\n    verdict: rejected\n    final: true\n")
		var wg sync.WaitGroup
		wg.Go(func() { r.many("n", 40) })
		rep := r.again("doubted", order.Report{History: order.History{Unsure: true, Attempts: 1}})
		wg.Wait()
		require.Equal(t, order.EndHandBack, rep.End)
		require.False(t, rep.Final)
		require.True(t, rep.History.Unsure)
		require.False(t, rep.History.Settleable())
	})
}

// exists answers that the order is there, by a code that proves it.
func exists(call) reply { return reply{status: 409, body: `{"code":"DUPLICATE_ORDER"}`} }

// A kept answer that says success without our order_no is not believed: a rule called it a
// refusal, and nothing says that the rule was wrong.
func TestAKeptAnswerNeedsMoreThanSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refuse, nil)
		r.judge.Rules = mustRules(t, "rules:\n  - when: status == 418\n    verdict: rejected\n")
		h := order.History{Unsure: true, Attempts: 1, Recalled: order.Recalled{At: time.Now(), Status: 200, Answer: `{"code":0,"ticket":"7"}`, MediaType: "application/json",
			Rule: 1, Only: true, BodyHash: newOrder(t, "n").BodyHash()}}
		rep := r.again("n", order.Report{History: h})
		require.NotEqual(t, order.Accepted, rep.Verdict)
		require.Equal(t, order.OutcomeUnknown, order.Decide(&rep, order.Facts{}).Outcome)
	})
}

// What a rule cannot judge again stays doubt.
func TestAKeptAnswerThatNoRuleCanJudgeStaysDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, rules := range map[string]string{
			"cut":    rightRule,
			"header": "rules:\n  - when: headers[\"x-no\"] == \"1\"\n    verdict: rejected\n  - when: status == 200\n    verdict: accepted\n",
		} {
			r := newRig(t, exists, nil)
			r.judge.Rules = mustRules(t, rules)
			h := order.History{Unsure: true, Attempts: 1, Recalled: order.Recalled{At: time.Now(), Status: 200, Answer: `{"code":0}`, Rule: 1, Only: true,
				Part: name == "cut", BodyHash: newOrder(t, "n").BodyHash()}}
			require.Equal(t, order.Duplicate, r.again("n", order.Report{History: h}).Verdict, name)
			r.api.handle = refuse
			rep := r.again("n", order.Report{History: h})
			require.Equal(t, order.OutcomeUnknown, order.Decide(&rep, order.Facts{}).Outcome, name)
			r.api.handle = exists
			h.Recalled.Part, h.Recalled.BodyHash = false, "another body"
			require.Equal(t, order.Duplicate, r.again("n", order.Report{History: h}).Verdict, name)
		}
	})
}

// The rules file is read again when it changes. A broken file keeps the old rules, and
// says so.
func TestRulesAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string, age time.Duration) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(file, at, at))
	}
	write(wrongRule, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		// In a bubble the time is 2000: the file is from the future, and at rest.
		r := newRig(t, creates(), func(c *Config) { c.Rules, c.HoldRetry = file, 0 })
		reports := r.many("n", 30)
		i := slices.IndexFunc(reports, func(rep order.Report) bool { return rep.History.Unsure })
		require.False(t, r.Gate().Open())
		require.Empty(t, r.Notes())

		write("rules:\n  - when: statu == 200\n    verdict: accepted\n", time.Hour)
		time.Sleep(rulesEvery * 3)
		require.Len(t, r.Notes(), 1)
		require.Contains(t, r.Notes()[0], "going on with the old rules")
		require.Contains(t, r.Notes()[0], "rules.yaml:2: rule 1: unknown name statu")
		require.NotContains(t, r.log.String(), "rules file read again")
		require.False(t, r.Gate().Open())

		write(rightRule, time.Hour)
		time.Sleep(rulesEvery * 2)
		require.Empty(t, r.Notes())
		require.Contains(t, r.log.String(), "rules file read again")
		require.Equal(t, order.OutcomeAccepted, decide(r.again(fmt.Sprint("n-", i), reports[i]), order.Facts{}).Outcome)
		require.Equal(t, order.OutcomeAccepted, decide(r.one("m"), order.Facts{}).Outcome, "on trial")
		require.True(t, r.Gate().Open())
	})
}
