package submit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// liveRules returns a rules file, and what changes its content.
func liveRules(t *testing.T, text string) (file string, write func(string)) {
	file = filepath.Join(t.TempDir(), "rules.yaml")
	write = func(text string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	write(text)
	return file, write
}

const codeZero = "rules:\n  - when: status == 200 && body.code == 0\n    verdict: "

// Refusals that wait for belief are those of the rules that were read when the decision comes: the
// first order that corrected rules accept must not confirm what the wrong rule refused.
func TestRefusalsThatWaitAreJudgedByTheRulesOfTheDecision(t *testing.T) {
	for name, decided := range map[string]func(r *rig){
		"an order was created":  func(r *rig) { require.Equal(r.t, order.Accepted, r.one("good").Verdict) },
		"a quiet time":          func(*rig) {},
		"the worker is stopped": nil,
	} {
		for verdict, want := range map[string]order.Outcome{"accepted": order.OutcomeAccepted, "rejected": order.OutcomeRejected, "retry": order.OutcomeUnknown, "unsure": order.OutcomeUnknown, "denied": order.OutcomeUnknown} {
			t.Run(name+", "+verdict, func(t *testing.T) {
				file, write := liveRules(t, codeZero+"rejected\n")
				synctest.Test(t, func(t *testing.T) {
					api := creates()
					r := newRig(t, func(c call) reply {
						if c.orderNo == "good" {
							return reply{status: 201, body: `{"order_no":"good","success":true}`}
						}
						return api(c)
					}, func(c *Config) { c.Rules, c.OnUnsure, c.HoldRetry = file, order.Park, 0 })
					r.warm()
					require.Equal(t, order.Accepted, r.one("good").Verdict) // a creation under the rules before
					ctx, stop := context.WithCancel(t.Context())
					r.refusals.begin() // a submission that goes on: no quiet time begins
					reports := make([]order.Report, 5)
					var wg sync.WaitGroup
					for i := range reports {
						wg.Go(func() { reports[i] = *r.Submit(ctx, &order.Submission{Order: newOrder(t, fmt.Sprint("n-", i))}) })
					}
					synctest.Wait()
					write(codeZero + verdict + "\n")
					time.Sleep(2 * rulesEvery)
					require.Contains(t, r.log.String()+verdict, map[bool]string{true: "rejected", false: "rules file read again"}[verdict == "rejected"])
					if decided == nil {
						stop()
					} else {
						decided(r)
					}
					r.refusals.end()
					wg.Wait()
					stop()
					for i, rep := range reports {
						if rep.End == order.EndHandBack {
							rep = r.again(fmt.Sprint("n-", i), rep)
						}
						require.Equal(t, want, decide(rep, order.Facts{Policy: order.Park}).Outcome, "%+v", rep)
					}
					posts, _ := r.api.calls()
					require.LessOrEqual(t, posts, 7, "none is posted again")
				})
			})
		}
	}
}

// What breaks the order schema and waits for belief is invalid only if it breaks the schema that was read last.
func TestWhatWaitsAndFulfilsTheCorrectedSchemaIsPosted(t *testing.T) {
	file, write := liveRules(t, `{"properties":{"order_no":{"pattern":"^gut"}}}`)
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Config{File: file}.Load(zerolog.Nop())
		require.NoError(t, err)
		r := withSchema(t, schema, nil)
		r.broken.begin() // a submission that goes on: no quiet time begins
		var reports []order.Report
		var wg sync.WaitGroup
		wg.Go(func() { reports = r.many("good", 5) })
		synctest.Wait()
		write(`{"properties":{"order_no":{"pattern":"^good"}}}`)
		time.Sleep(2 * rulesEvery)
		require.Equal(t, order.Accepted, r.one("good").Verdict)
		r.broken.end()
		wg.Wait()
		require.Equal(t, map[order.End]int{order.EndHandBack: 5}, ends(reports))
		for _, rep := range reports {
			require.Empty(t, rep.Reason)
		}
	})
}

// A person who resumed confirmed the refusals of the rules, or the schema, of that time. A mistake that
// is made later holds the pool as if nobody had resumed.
func TestAResumeConfirmsNoLaterRules(t *testing.T) {
	file, write := liveRules(t, codeZero+"accepted\n")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refuse, func(c *Config) { c.Rules, c.HoldRetry = file, 0 })
		r.many("bad", 100)
		require.False(t, r.Gate().Open())
		r.Gate().Resume()
		require.Equal(t, map[order.End]int{order.EndAnswer: 100}, ends(r.many("bad", 100)), "a person has looked at these")
		r.api.handle = creates()
		write(codeZero + "rejected\n")
		time.Sleep(2 * rulesEvery)
		require.Equal(t, map[order.End]int{order.EndHandBack: 100}, ends(r.many("n", 100)))
		require.False(t, r.Gate().Open())
	})
	file, write = liveRules(t, `false`)
	synctest.Test(t, func(t *testing.T) {
		schema, err := schema.Config{File: file}.Load(zerolog.Nop())
		require.NoError(t, err)
		r := withSchema(t, schema, func(c *Config) { c.HoldRetry = 0 })
		r.many("bad", 100)
		r.Gate().Resume()
		require.Equal(t, map[order.End]int{order.EndInvalid: 100}, ends(r.many("bad", 100)))
		write(`{"required":["order_nmbr"]}`)
		time.Sleep(3 * rulesEvery)
		require.Equal(t, map[order.End]int{order.EndHandBack: 100}, ends(r.many("n", 100)))
	})
}

// A worker that is stopped believes few refusals only if the API created an order under the same rules.
func TestAStopBelievesNoRefusalOfNewRules(t *testing.T) {
	file, write := liveRules(t, codeZero+"accepted\n")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, creates(), func(c *Config) { c.Rules = file })
		require.Equal(t, order.Accepted, r.one("good").Verdict)
		write(codeZero + "rejected\n")
		time.Sleep(2 * rulesEvery)
		ctx, stop := context.WithCancel(t.Context())
		var rep order.Report
		var wg sync.WaitGroup
		wg.Go(func() { rep = *r.Submit(ctx, &order.Submission{Order: newOrder(t, "n")}) })
		synctest.Wait()
		stop()
		wg.Wait()
		require.Equal(t, order.EndHandBack, rep.End)
		require.True(t, rep.History.Unsure)
	})
}

// Refusals that are called back twice, before and after a rule was put above theirs, are of one kind.
func TestRefusalsOfARuleThatMovedInItsFileAreRefusedInTheEnd(t *testing.T) {
	file, write := liveRules(t, rightRule)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{body: `{"code":40012}`} }, func(c *Config) { c.Rules, c.HoldRetry = file, 0 })
		reports := r.many("n", 40)
		write("rules:\n  - when: status == 418\n    verdict: retry\n" + strings.TrimPrefix(rightRule, "rules:\n"))
		time.Sleep(2 * rulesEvery)
		posted := slices.IndexFunc(reports, func(rep order.Report) bool { return rep.History.Unsure })
		rep := r.again(fmt.Sprint("n-", posted), reports[posted])
		require.Equal(t, order.EndHandBack, rep.End)
		require.Equal(t, 2, rep.History.Attempts, "it was tried again, and called back again")
		r.Gate().Resume()
		rep = r.again(fmt.Sprint("n-", posted), rep)
		require.Equal(t, order.OutcomeRejected, decide(rep, order.Facts{}).Outcome)
	})
}

// A duplicate shows that requests arrive. That a rule reads the answers right, it does not show: what a wrong
// rule refused goes on waiting, and is called back.
func TestADuplicateConfirmsNoRefusalOfARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := creates()
		r := newRig(t, api, func(c *Config) { c.HoldRetry = 0 })
		r.judge.Rules = mustRules(t, wrongRule)
		api(call{orderNo: "doubted"}) // its answer was lost
		r.warm()
		var reports []order.Report
		var wg sync.WaitGroup
		r.refusals.begin() // a submission that goes on: no quiet time begins
		wg.Go(func() { reports = r.many("n", 10) })
		synctest.Wait()
		rep := r.again("doubted", order.Report{History: order.History{Attempts: 1, Unsure: true, DoubtReason: "test"}})
		require.Equal(t, order.OutcomeAccepted, decide(rep, order.Facts{}).Outcome)
		ctx, stop := context.WithCancel(t.Context())
		var stopped order.Report
		wg.Go(func() { stopped = *r.Submit(ctx, &order.Submission{Order: newOrder(t, "stopped")}) })
		synctest.Wait()
		stop()
		r.many("m", 10)
		r.refusals.end()
		wg.Wait()
		require.Equal(t, map[order.End]int{order.EndHandBack: 11}, ends(append(reports, stopped)))
		require.False(t, r.Gate().Open())
	})
	// What a status refuses, it refuses.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.orderNo == "there" {
				return exists(c)
			}
			return refuse(c)
		}, nil)
		r.refusals.begin()
		defer r.refusals.end()
		var reports []order.Report
		var wg sync.WaitGroup
		wg.Go(func() { reports = r.many("n", 10) })
		synctest.Wait()
		r.one("there")
		wg.Wait()
		require.Equal(t, map[order.End]int{order.EndAnswer: 10}, ends(reports))
	})
}
