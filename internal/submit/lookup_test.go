package submit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

const lookupRules = `rules:
  - {when: status == 299, verdict: accepted}
lookup:
  request: GET /v1/order/{order_no}
  absent_for: 12m
  timestamp_window: 5m
  rules:
    - {when: status == 200 && body.data.state == "declined", verdict: rejected, reason: declined}
    - {when: status == 200 && body.data.order_no == order_no, verdict: exists}
    - {when: status == 404 && body.code == 30404, verdict: absent}
`

// doubtful is a submission of an order whose last attempt, a minute ago, is in doubt.
func doubtful(t *testing.T, no string) *order.Submission {
	h := order.History{Attempts: 1, LastTimestamp: time.Now().UnixMilli(), FirstAttemptAt: time.Now().Add(-time.Minute), LastAttemptAt: time.Now().Add(-time.Minute)}
	h.Doubt("unsure")
	return &order.Submission{Order: newOrder(t, no), History: h}
}

func lookupRig(t *testing.T, policy order.Policy, look func(call) reply) *rig {
	r := newRigWith(t, &fakeAPI{handle: func(call) reply { return reply{status: 503} }, look: look}, StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, func(c *Config) { c.OnUnsure = policy })
	r.judge.Rules = mustRules(t, lookupRules)
	return r
}

func TestLookupSettlesAnOrderInDoubt(t *testing.T) {
	absent := reply{status: 404, body: `{"code":30404}`}
	for name, c := range map[string]struct {
		answer reply
		known  time.Duration // since the first absent answer; 0 = there was none
		want   map[order.Policy]order.Settlement
		delay  time.Duration
	}{
		"exists":             {answer: reply{status: 200, body: `{"data":{"order_no":"n/1"}}`}, want: both(order.Settlement{Action: order.ActSettle, Outcome: order.OutcomeAccepted})},
		"rejected":           {answer: reply{status: 200, body: `{"data":{"order_no":"n/1","state":"declined"}}`}, want: both(order.Settlement{Action: order.ActSettle, Outcome: order.OutcomeRejected})},
		"another order":      {answer: reply{status: 200, body: `{"data":{"order_no":"n2","state":"declined"}}`}, want: both(order.Settlement{Action: order.ActDelay, Unsure: true}), delay: 5 * time.Second},
		"no rule":            {answer: reply{status: 404}, want: both(order.Settlement{Action: order.ActDelay, Unsure: true}), delay: 5 * time.Second},
		"absent once":        {answer: absent, want: both(order.Settlement{Action: order.ActDelay, Unsure: true}), delay: 5 * time.Minute},
		"absent again":       {answer: absent, known: 11 * time.Minute, want: both(order.Settlement{Action: order.ActDelay, Unsure: true}), delay: time.Minute},
		"absent long enough": {answer: absent, known: 12 * time.Minute, want: map[order.Policy]order.Settlement{order.Park: {Action: order.ActSettle, Outcome: order.OutcomeExhausted}, order.Resubmit: {Action: order.ActHandBack}}},
	} {
		for policy, want := range c.want {
			t.Run(name+" under "+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := lookupRig(t, policy, func(call) reply { return c.answer })
					s := doubtful(t, "n/1")
					if c.known > 0 {
						s.History.AbsentAt, s.AbsentFor = time.Now().Add(time.Hour), c.known // its clock says nothing
					}
					rep := *r.Submit(context.Background(), s)
					require.Equal(t, want, decide(rep, order.Facts{Policy: policy}))
					posts, _ := r.api.calls()
					require.Zero(t, posts, "an order in doubt is asked for, not posted")
					require.Equal(t, "/v1/order/n%2F1", r.api.looked[0].path)
					require.Equal(t, c.answer.status == 404 && c.answer.body != "" && want.Unsure, !rep.History.AbsentAt.IsZero())
					if want.Action == order.ActDelay {
						require.GreaterOrEqual(t, rep.Delay, c.delay/2)
						require.LessOrEqual(t, rep.Delay, 3*c.delay)
					}
				})
			})
		}
	}
}

func both(s order.Settlement) map[order.Policy]order.Settlement {
	return map[order.Policy]order.Settlement{order.Park: s, order.Resubmit: s}
}

// The attempt that puts an order in doubt ends its submission: nothing is parked, and nothing is posted again.
func TestAnAttemptInDoubtIsLookedUpLater(t *testing.T) {
	for _, policy := range []order.Policy{order.Park, order.Resubmit} {
		synctest.Test(t, func(t *testing.T) {
			r := lookupRig(t, policy, nil)
			rep := *r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n")})
			require.Equal(t, order.Settlement{Action: order.ActDelay, Unsure: true}, decide(rep, order.Facts{Policy: policy}))
			require.Equal(t, 5*time.Second, rep.Delay)
			posts, _ := r.api.calls()
			require.Equal(t, 1, posts)
		})
	}
}

// An attempt takes the absence away that was said before it.
func TestAnAttemptEndsAnAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lookupRig(t, order.Resubmit, nil)
		s := doubtful(t, "n")
		s.History.AbsentAt, s.AbsentFor, s.Allowed = time.Now(), time.Hour, true // a person allowed it
		rep := *r.Submit(context.Background(), s)
		require.True(t, rep.History.AbsentAt.IsZero())
		require.True(t, rep.History.Unsure)
	})
}

// An order whose deadline passed while it was in doubt is looked up still.
func TestADeadlineDoesNotEndDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lookupRig(t, order.Park, func(call) reply { return reply{status: 200, body: `{"data":{"order_no":"n"}}`} })
		s := doubtful(t, "n")
		s.Deadline = time.Now().Add(-time.Minute)
		rep := *r.Submit(context.Background(), s)
		require.Equal(t, order.OutcomeAccepted, decide(rep, order.Facts{Policy: order.Park}).Outcome)
	})
}

// What no lookup rule covers is told once, and to people who look.
func TestAnAnswerThatNoLookupRuleCoversIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lookupRig(t, order.Park, func(call) reply { return reply{status: 418} })
		for range 2 {
			r.Submit(context.Background(), doubtful(t, "n"))
		}
		require.Len(t, r.Notes(), 1)
		require.Contains(t, r.Notes()[0], "lookups are answered with status 418")
		require.Equal(t, 1, strings.Count(r.log.String(), "no lookup rule covers this answer"))
	})
}

// Lookups take at most a tenth of the slots and of the rate.
func TestLookupsTakeATenth(t *testing.T) {
	l, now := newLooks(30), time.Now()
	for range 3 {
		require.True(t, l.begin(0, now))
	}
	require.False(t, l.begin(0, now))
	l.end()
	require.True(t, l.begin(10, now))
	l.end()
	require.False(t, l.begin(10, now.Add(999*time.Millisecond)))
	require.True(t, l.begin(10, now.Add(time.Second)))
}
