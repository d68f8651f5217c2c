package submit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

func verdicts(rep order.Report) (v []order.Verdict) {
	for _, a := range rep.Trail {
		v = append(v, a.Verdict)
	}
	return v
}

func TestDoubtIsSettledByADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n == 1 {
				return reply{hang: true}
			}
			return reply{status: 409, body: `{"error":"ORDER_EXISTS"}`}
		}, func(c *Config) { c.RetrySubmissionTime = time.Minute })
		rep := r.one("n")
		require.Equal(t, order.Duplicate, rep.Verdict)
		require.True(t, rep.History.Unsure, "Decide needs it")
		require.Equal(t, order.OutcomeAccepted, order.Decide(&rep, order.Facts{}).Outcome)
		require.Equal(t, "no answer: timeout", rep.Trail[0].Reason)
		require.Equal(t, r.cfg.RequestTimeout.Milliseconds(), rep.Trail[0].DurationMS)
	})
}

// TestDoubtSaysWhy: a refusal that follows an attempt in doubt is the record's reason, and
// does not hide what the doubt is about.
func TestDoubtSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n == 1 {
				return reply{hang: true}
			}
			return reply{status: 422, body: `{"code":7}`}
		}, func(c *Config) { c.RetrySubmissionTime = time.Minute })
		rep := r.one("n")
		require.Equal(t, order.OutcomeUnknown, order.Decide(&rep, order.Facts{}).Outcome)
		require.Equal(t, "no answer: timeout", rep.History.DoubtReason)
		require.Equal(t, "refused by status 422", rep.Reason)
	})
}

func TestDoubtIsSettledByAFinalRule(t *testing.T) {
	for verdict, want := range map[string]order.Outcome{"rejected": order.OutcomeRejected, "retry": order.OutcomeAccepted} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c call) reply {
				switch c.n {
				case 1:
					return reply{status: 500}
				case 2:
					return reply{status: 422, body: `{"code":7}`}
				default:
					return reply{}
				}
			}, nil)
			r.judge.Rules = mustRules(t, "rules:\n  - when: status == 422 && body.code == 7\n    verdict: "+verdict+"\n    final: true\n")
			rep := r.one("n")
			require.False(t, rep.History.Unsure)
			require.Equal(t, want, order.Decide(&rep, order.Facts{}).Outcome)
		})
	}
}

func mustRules(t testing.TB, text string) *answer.Rules {
	t.Helper()
	r, err := answer.ParseRules("rules.yaml", []byte(text))
	require.NoError(t, err)
	return r
}

func TestParkEndsAtTheFirstUnsureAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n == 1 {
				return reply{status: 429}
			}
			return reply{err: errReset}
		}, func(c *Config) { c.OnUnsure = order.Park })
		rep := r.one("n")
		require.Equal(t, order.EndAnswer, rep.End)
		require.Equal(t, []order.Verdict{order.Retry, order.Unsure}, verdicts(rep))
		require.Equal(t, order.OutcomeUnknown, order.Decide(&rep, order.Facts{Policy: order.Park}).Outcome)
	})
}

func TestParkedOrderIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, func(c *Config) { c.OnUnsure = order.Park })
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: order.History{Attempts: 1, Unsure: true}})
		require.Equal(t, order.EndAnswer, rep.End)
		require.Equal(t, order.OutcomeUnknown, order.Decide(rep, order.Facts{Policy: order.Park}).Outcome)
		require.Empty(t, r.api.posts)

		rep = r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: order.History{Attempts: 1, Unsure: true}, Allowed: true})
		require.Equal(t, order.Accepted, rep.Verdict, "a person allowed it")
	})
}

func TestWriteAheadIsConfirmedBeforeTheRequestLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []order.History
		r := newRig(t, func(c call) reply {
			require.Len(t, notes, c.n, "each attempt has its note")
			if c.n == 1 {
				return reply{status: 429}
			}
			return reply{}
		}, func(c *Config) { c.OnUnsure = order.Park })
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), WriteAhead: func(_ context.Context, h order.History) error {
			time.Sleep(time.Second) // a slow broker
			notes = append(notes, h)
			return nil
		}})
		require.Equal(t, order.Accepted, rep.Verdict)
		require.Equal(t, 1, notes[0].Attempts)
		require.Equal(t, 2, notes[1].Attempts)
		require.False(t, notes[0].FirstAttemptAt.IsZero())
		for i, c := range r.api.posts {
			require.InDelta(t, c.at.UnixMilli(), c.stamp, 1, "the timestamp is made after the note")
			require.GreaterOrEqual(t, c.stamp, notes[i].LastTimestamp)
		}
	})
}

func TestWriteAheadThatFailsSendsNothing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want order.End
	}{{errors.New("stream is full"), order.EndHandBack}, {order.ErrLeaseLost, order.EndLeaseLost}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, accept, nil)
			rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"),
				WriteAhead: func(context.Context, order.History) error { return c.err }})
			require.Equal(t, c.want, rep.End)
			require.Zero(t, rep.History.Attempts)
			require.Empty(t, r.api.posts)
			require.Zero(t, r.Gate().State().InFlight, "the pass was given back")
		})
	}
}

func TestFenceIsAskedBeforeEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Time
		lost := time.Now().Add(3 * time.Second)
		r := newRig(t, func(call) reply { return reply{status: 425} }, func(c *Config) {
			c.RetryBase, c.RetryMax, c.RetrySubmissionAttempts = time.Second, time.Second, 1000
		})
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), Fence: func(context.Context) error {
			asked = append(asked, time.Now())
			if time.Now().After(lost) {
				return order.ErrLeaseLost
			}
			return nil
		}})
		require.Equal(t, order.EndLeaseLost, rep.End)
		require.Len(t, r.api.posts, len(asked)-1)
		for i, at := range r.api.times() {
			require.Equal(t, asked[i], at, "directly before")
		}
		require.Zero(t, r.Gate().State().InFlight)
	})
}

func TestContextEndsInTheMiddleOfAnAttempt(t *testing.T) {
	for _, c := range []struct {
		name   string
		cause  error
		unread bool
		end    order.End
		want   order.Verdict
	}{
		{"shutdown", context.Canceled, false, order.EndHandBack, order.Unsure},
		{"lease", order.ErrLeaseLost, false, order.EndLeaseLost, order.Unsure},
		{"lease before anything was sent", order.ErrLeaseLost, true, order.EndLeaseLost, order.Retry},
	} {
		for _, policy := range []order.Policy{order.Resubmit, order.Park} {
			t.Run(c.name+"/"+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, func(call) reply { return reply{hang: true, unread: c.unread} }, func(cfg *Config) { cfg.OnUnsure = policy })
					ctx, cancel := context.WithCancelCause(context.Background())
					time.AfterFunc(time.Second, func() { cancel(c.cause) })
					rep := r.Submit(ctx, &order.Submission{Order: newOrder(t, "n")})
					require.Equal(t, c.end, rep.End)
					require.Equal(t, c.want, rep.Verdict)
					require.Equal(t, c.want == order.Unsure, rep.History.Unsure)
					require.Equal(t, 1, rep.History.Attempts)
				})
			})
		}
	}
}

func TestContextEndsWhileWaiting(t *testing.T) {
	for name, handle := range map[string]func(call) reply{"backoff": func(call) reply { return reply{status: 425} }, "gate": accept} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, handle, func(c *Config) { c.RetrySubmissionAttempts, c.RetrySubmissionTime = 1e6, 1000*time.Hour })
				if name == "gate" {
					r.Gate().Hold("test", time.Time{})
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(5*time.Second, func() { cancel(order.ErrLeaseLost) })
				began := time.Now()
				rep := r.Submit(ctx, &order.Submission{Order: newOrder(t, "n")})
				require.Equal(t, order.EndLeaseLost, rep.End)
				require.Equal(t, 5*time.Second, time.Since(began))
			})
		})
	}
}

func TestSignerThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, &fakeAPI{}, StaticKeys{{Key: keyA, Signer: refusingSigner{}}}, nil)
		rep := r.one("n")
		require.Equal(t, order.EndInvalid, rep.End)
		require.Zero(t, rep.History.Attempts)
		require.Contains(t, rep.Error, "no")
	})
}

type refusingSigner struct{}

func (refusingSigner) Sign([]byte, *order.Order, int64) ([]byte, string, error) {
	return nil, "", errors.New("no")
}
