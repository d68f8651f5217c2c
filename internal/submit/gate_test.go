package submit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

func TestHoldAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, func(c *Config) { c.GatePatience = time.Hour })
		g := r.Gate()
		require.True(t, g.Open())
		changed := g.Changed()
		g.Hold("maintenance", time.Time{})
		<-changed
		require.False(t, g.Open())
		require.Zero(t, g.Capacity())
		s := g.State()
		require.Equal(t, []string{"maintenance"}, s.Reasons)
		require.Equal(t, "hold: maintenance", s.Blocks[0].Name)

		done := make(chan order.Report)
		go func() { done <- r.one("n") }()
		synctest.Wait()
		require.Equal(t, 1, g.State().Waiting)
		require.Empty(t, r.api.posts)
		g.Resume()
		require.Equal(t, order.Accepted, (<-done).Verdict)
		require.True(t, g.State().Open)
	})
}

func TestHoldsAreLiftedOneByOneAndByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, nil)
		g := r.Gate()
		g.Hold("a", time.Time{})
		g.Hold("b", time.Now().Add(time.Minute))
		g.Release("a")
		require.False(t, g.Open())
		g.Release("none such")
		began := time.Now()
		require.NoError(t, g.Wait(context.Background()))
		require.Equal(t, time.Minute, time.Since(began))

		g.Hold("c", time.Time{})
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("enough"))
		defer cancel()
		require.EqualError(t, g.Wait(ctx), "enough")
	})
}

func TestPatienceAtAClosedGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, nil)
		r.Gate().Hold("maintenance", time.Time{})
		began := time.Now()
		rep := r.one("n")
		require.Equal(t, order.EndHandBack, rep.End)
		require.Contains(t, rep.Error, "gate is closed")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Zero(t, r.Gate().State().Waiting)
	})
}

func TestStateChangesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, broken, func(c *Config) { c.GatePatience = time.Second })
		for i := range 3 {
			r.many(fmt.Sprint(i), 64)
		}
		require.Equal(t, 1, strings.Count(r.log.String(), "requests to the API keep failing"))
		require.Equal(t, 1, strings.Count(r.log.String(), "gate closed"))
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, func(c *Config) { c.RateLimit, c.Concurrency = 10, 100 })
		r.warm()
		began := time.Now()
		require.Equal(t, map[order.End]int{order.EndAnswer: 50}, ends(r.many("n", 50)), "waiting for the limit is no closed gate")
		require.InDelta(t, 4.9, time.Since(began).Seconds(), 0.05)

		require.Equal(t, 10.0, r.Gate().State().Rate)
		r.Gate().SetLimit(100)
		began = time.Now()
		r.many("m", 100)
		require.InDelta(t, 0.95, time.Since(began).Seconds(), 0.1)
		r.Gate().SetLimit(0)
		began = time.Now()
		r.many("o", 100)
		require.Zero(t, time.Since(began))
	})
}

func TestGateThatShutsDuringTheRateWaitSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, func(c *Config) { c.RateLimit = 1 })
		r.warm()
		time.AfterFunc(2500*time.Millisecond, func() { r.Gate().Hold("test", time.Now().Add(5*time.Second)) })
		began := time.Now()
		require.Equal(t, map[order.End]int{order.EndAnswer: 10}, ends(r.many("n", 10)))
		for _, at := range r.api.times() {
			d := at.Sub(began)
			require.False(t, d > 2500*time.Millisecond && d < 7500*time.Millisecond, "sent %s after the start", d)
		}
	})
}

func TestRampDoublesPerRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{after: time.Second} }, nil)
		began := time.Now()
		r.many("n", 64+63)
		perSecond := map[int]int{}
		for _, at := range r.api.times() {
			perSecond[int(at.Sub(began)/time.Second)]++
		}
		require.Equal(t, map[int]int{0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 32, 6: 64}, perSecond)
		require.Equal(t, 64, r.Gate().State().Limit)
		r.api.most = 0
		r.many("m", 200)
		require.Equal(t, 64, r.api.most, "never more than the concurrency")
	})
}

func TestThrottleStopsThePoolAndHalvesTheRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n <= 32 {
				return reply{status: 429, header: map[string]string{"Retry-After": "5"}, after: time.Second}
			}
			return reply{after: time.Second}
		}, func(c *Config) { c.RetryMax = time.Second })
		r.warm()
		began := time.Now()
		reports := r.many("n", 32)
		require.Equal(t, map[order.End]int{order.EndAnswer: 32}, ends(reports))
		perSecond := map[int]int{}
		for _, at := range r.api.times() {
			perSecond[int(at.Sub(began)/time.Second)]++
		}
		require.Equal(t, 32, perSecond[0])
		require.Zero(t, perSecond[1]+perSecond[2]+perSecond[3]+perSecond[4]+perSecond[5], "all wait for as long as one was told")
		require.Equal(t, 16, perSecond[6], "half of those that were under way, once")
		for _, rep := range reports {
			require.False(t, rep.History.Unsure)
		}
	})
}

func TestThrottleWithoutRetryAfterDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n <= 4 {
				return reply{status: 429}
			}
			return reply{}
		}, func(c *Config) { c.RetryBase, c.RetryMax = time.Millisecond, time.Millisecond })
		require.Equal(t, order.Accepted, r.one("n").Verdict)
		at := r.api.times()
		for i, want := range []time.Duration{1, 2, 4, 8} {
			require.InDelta(t, (want * time.Second).Seconds(), at[i+1].Sub(at[i]).Seconds(), 0.01)
		}
	})
}

func TestRuleThrottles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n == 1 {
				return reply{status: 200, body: `{"code":100429}`}
			}
			return reply{}
		}, nil)
		r.judge.Rules = mustRules(t, "rules:\n  - when: body.code == 100429\n    verdict: retry\n    throttle: true\n    wait: 3s\n")
		require.Equal(t, order.Accepted, r.one("n").Verdict)
		at := r.api.times()
		require.InDelta(t, 3, at[1].Sub(at[0]).Seconds(), 0.3)
	})
}

func TestBreakerOpensProbesAndRamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		down := func() bool { d := time.Since(began); return d > 10*time.Second && d < 40*time.Second }
		api := &fakeAPI{
			handle: func(c call) reply {
				if down() {
					return reply{err: errReset, unread: true}
				}
				return reply{after: 10 * time.Millisecond}
			},
			account: func(call) reply {
				if down() {
					return reply{err: errReset}
				}
				return reply{}
			},
		}
		r := newRigWith(t, api, StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, func(c *Config) { c.GatePatience = time.Hour })
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for n := 0; time.Since(began) < time.Minute; n++ {
					r.one(fmt.Sprintf("%d-%d", i, n))
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		var inOutage int
		var first time.Time
		for _, at := range api.times() {
			switch d := at.Sub(began); {
			case d > 10*time.Second && d < 40*time.Second:
				inOutage++
			case d >= 40*time.Second && first.IsZero():
				first = at
			}
		}
		require.Less(t, inOutage, 200, "64 workers for 30 s: the breaker spares the API")
		require.Positive(t, len(api.gets))
		var probesInOutage int
		for _, c := range api.gets {
			if d := c.at.Sub(began); d > 10*time.Second && d < 40*time.Second {
				probesInOutage++
			}
		}
		require.LessOrEqual(t, probesInOutage, 3, "after 5 and 10 s, then one in 20 s")
		require.Less(t, first.Sub(began)-40*time.Second, 22*time.Second, "the API's return is seen soon")
		require.False(t, api.gets[len(api.gets)-1].at.After(first), "the account is asked before an order")
		herd := 0
		for _, at := range api.times() {
			if d := at.Sub(first); d >= 0 && d < 10*time.Millisecond {
				herd++
			}
		}
		require.Equal(t, 1, herd, "one order first")
		require.True(t, r.Gate().State().Open)
	})
}

func TestBreakerTrialThatFailsOpensItForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, broken, func(c *Config) { c.GatePatience = 1000 * time.Second; c.RetrySubmissionAttempts = 1 })
		began := time.Now()
		for n := 0; time.Since(began) < 5*time.Minute; n++ { // the account answers, orders fail
			r.one(fmt.Sprint(n))
		}
		var gaps []float64
		at := r.api.times()
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]).Seconds(); d > 2 {
				gaps = append(gaps, d)
			}
		}
		want := []float64{5, 10, 20, 40, 80, 80, 80}
		require.GreaterOrEqual(t, len(gaps), 6)
		for i, gap := range gaps {
			require.InDelta(t, want[i]*1.05, gap, want[i]*0.06, "%v", gaps)
		}
	})
}

func TestTrialThatWeBreakOffShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{hang: true} }, nil)
		r.Gate().KeySuspected("test")
		time.Sleep(2 * time.Second) // the account answers
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.Equal(t, order.EndHandBack, r.Submit(ctx, &order.Submission{Order: newOrder(t, "n")}).End)
		require.Equal(t, gate.StageTrial, r.Gate().State().Blocks[0].Stage)
	})
}

func TestUnreadableAnswerHoldsThePoolAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newRig(t, func(c call) reply {
			if time.Since(began) < 100*time.Second {
				return reply{status: 200, body: `<html>maintenance</html>`}
			}
			return reply{}
		}, func(c *Config) {
			c.GatePatience = time.Hour
			c.RetrySubmissionTime = time.Hour
			c.RetrySubmissionAttempts = 20
		})
		reports := r.many("n", 10)
		require.Equal(t, map[order.End]int{order.EndAnswer: 10}, ends(reports))
		unsure := 0
		for _, rep := range reports {
			require.Equal(t, order.Accepted, rep.Verdict)
			if len(rep.Trail) > 1 {
				unsure++
			}
		}
		require.LessOrEqual(t, unsure, 3, "few orders got into doubt: one at the start, one a trial (15, 30, 60 s)")
		require.Contains(t, r.log.String(), "ORDERPOST_RULES")
		require.Contains(t, r.log.String(), "gate opened")
	})
}

func TestHoldRetryZeroWaitsForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply { return reply{status: 200, body: `{"code":9}`} }, func(c *Config) { c.HoldRetry = 0 })
		rep := r.one("n")
		require.Equal(t, order.EndHandBack, rep.End)
		require.Equal(t, order.Unsure, rep.Verdict)
		time.Sleep(24 * time.Hour)
		require.False(t, r.Gate().Open())
		require.True(t, r.Gate().State().Blocks[0].Until.IsZero())
		r.Gate().Resume()
		require.True(t, r.Gate().Open())
	})
}

func TestRoomOnATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n == 1 {
				return reply{status: 200, body: `{"code":9}`}
			}
			return reply{after: time.Second}
		}, func(c *Config) { c.GatePatience = time.Hour })
		r.gate.HoldByAnswer(gate.BlockAnswer, "test")
		time.Sleep(2 * r.cfg.HoldRetry)
		require.Equal(t, 4, r.Gate().Capacity(), "one that tries, and others in case it is the one that was denied before")
		require.True(t, r.Gate().Open())
		go r.many("n", 6)
		synctest.Wait()
		require.Zero(t, r.Gate().Capacity())
		time.Sleep(time.Minute)
		require.Equal(t, r.cfg.Concurrency, r.Gate().Capacity())
	})
}

func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, nil)
		r.Gate().Hold("test", time.Time{})
		done := make(chan []order.Report)
		go func() { done <- r.many("n", 5) }()
		synctest.Wait()
		r.Close()
		r.Close()
		require.Equal(t, map[order.End]int{order.EndHandBack: 5}, ends(<-done))
		require.Equal(t, order.EndHandBack, r.one("m").End)
		require.Empty(t, r.api.posts)
	})
}

// recorder is an Observer that remembers.
type recorder struct {
	mu       sync.Mutex
	attempts []AttemptEvent
	states   []gate.State
	waits    []time.Duration
	queued   []bool
}

func (o *recorder) Retrying(wait time.Duration, queued bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits, o.queued = append(o.waits, wait), append(o.queued, queued)
}

func (o *recorder) LookedUp(order.Found) {}

func (o *recorder) Attempted(a AttemptEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, a)
}

func (o *recorder) GateChanged(s gate.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states = append(o.states, s)
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.n == 1 {
				return reply{status: 429, after: time.Second}
			}
			return reply{after: time.Second}
		}, nil)
		o := &recorder{}
		r.watch = o
		r.trace = func(_ context.Context, to *url.URL, attempt int) Span {
			return Span{TraceID: fmt.Sprint(to.Path, attempt)}
		}
		r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n")})
		require.Len(t, o.attempts, 2)
		a, b := o.attempts[0], o.attempts[1]
		require.Equal(t, order.Retry, a.Verdict)
		require.Equal(t, 429, a.Status)
		require.Equal(t, time.Second, a.Duration)
		require.Equal(t, "n", a.OrderNo)
		require.Equal(t, []string{"/v1/order/create1", "/v1/order/create2"}, []string{a.TraceID, b.TraceID})
		require.Positive(t, a.RequestBytes)
		require.Equal(t, order.Accepted, b.Verdict)
		require.Equal(t, 2, b.Attempt)
		require.Positive(t, b.GateWait)
		require.False(t, o.states[0].Open)
		require.Equal(t, gate.BlockThrottle, o.states[0].Blocks[0].Name)
		require.True(t, o.states[len(o.states)-1].Open)
	})
}

func TestObserverHearsOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 429} }, func(c *Config) {
			c.RetrySubmissionAttempts = 3
		})
		o := &recorder{}
		r.watch = o
		report := r.one("n")
		require.Equal(t, order.EndSubmissionBudget, report.End)
		require.Equal(t, []bool{false, false, true}, o.queued)
		require.Equal(t, report.Delay, o.waits[2])
		require.LessOrEqual(t, o.waits[0], r.cfg.RetryBase)
	})
}

// TestTheRateLimitIsFelt: attempts tell how long it made them wait, and the
// gate that it binds, until it has not for a while.
func TestTheRateLimitIsFelt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{} }, func(c *Config) { c.RateLimit = 10 })
		o := &recorder{}
		r.watch = o
		r.one("a")
		require.Zero(t, o.attempts[0].RateWait)
		require.False(t, r.gate.State().RateBinds, "one order in a while does not feel it")
		r.one("b")
		require.Equal(t, 100*time.Millisecond, o.attempts[1].RateWait)
		require.GreaterOrEqual(t, o.attempts[1].GateWait, o.attempts[1].RateWait)
		require.True(t, r.gate.State().RateBinds)
		time.Sleep(10 * time.Second)
		require.False(t, r.gate.State().RateBinds)
		r.gate.SetLimit(0)
		r.one("c")
		r.one("d")
		require.Zero(t, o.attempts[3].RateWait)
	})
}
