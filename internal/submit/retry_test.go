package submit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func TestBackoffIsFullJitter(t *testing.T) {
	caps := []time.Duration{100, 200, 400, 800, 1000, 1000} // milliseconds, base 100, max 1000
	sums := make([]time.Duration, len(caps))
	const rounds = 3000
	for range rounds {
		b := waitsFrom(50*time.Millisecond, 500*time.Millisecond, 1)
		for i, c := range caps {
			w := b.NextBackOff()
			require.LessOrEqual(t, w, c*time.Millisecond+1)
			require.GreaterOrEqual(t, w, time.Duration(0))
			sums[i] += w
		}
	}
	for i, c := range caps { // uniform from 0: the mean is half the cap
		mean := sums[i] / rounds
		require.InDelta(t, float64(c*time.Millisecond)/2, float64(mean), float64(c*time.Millisecond)*0.05, "wait %d", i)
	}
}

func TestVisitEndsWithADelayInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 425} }, func(c *Config) {
			c.RetryBase, c.RetryMax, c.RetrySubmissionAttempts = time.Second, 4*time.Second, 4
			c.RetrySubmissionTime = time.Minute
			c.BreakerRatio = 0
		})
		began := time.Now()
		rep := r.one("n")
		require.Equal(t, order.EndSubmissionBudget, rep.End)
		require.Equal(t, order.Retry, rep.Verdict)
		require.Equal(t, 4, rep.History.Attempts)
		require.Len(t, rep.Trail, 4)
		require.False(t, rep.History.Unsure)
		require.Positive(t, rep.Delay)
		require.LessOrEqual(t, rep.Delay, 15*time.Second, "10s ± half")
		at := r.api.times()
		for i, longest := range []time.Duration{1, 2, 4} {
			require.LessOrEqual(t, at[i+1].Sub(at[i]), longest*time.Second+1)
		}
		require.Equal(t, time.Since(began), at[3].Sub(at[0]), "no wait after the last attempt: the slot is wanted")
	})
}

func TestVisitEndsWhenItsTimeIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 425, after: 4 * time.Second} }, func(c *Config) {
			c.RetrySubmissionAttempts, c.RetrySubmissionTime = 100, 10*time.Second
		})
		rep := r.one("n")
		require.Equal(t, order.EndSubmissionBudget, rep.End)
		require.Less(t, rep.History.Attempts, 5)
		require.GreaterOrEqual(t, rep.History.Attempts, 2)
	})
}

func TestDelayGrowsFromVisitToVisit(t *testing.T) {
	cfg := testConfig(nil)
	mean := func(attempts int) time.Duration {
		var sum time.Duration
		for range 400 {
			b := newBudget(&cfg)
			d := b.delay(order.History{Attempts: attempts}, 0)
			require.LessOrEqual(t, d, cfg.RetryDelayMax)
			sum += d
		}
		return sum / 400
	}
	require.InDelta(t, 10, mean(5).Seconds(), 1)
	require.InDelta(t, 20, mean(10).Seconds(), 2)
	require.InDelta(t, 40, mean(15).Seconds(), 4)
	require.Greater(t, mean(5000), 200*time.Second)
	b := newBudget(&cfg)
	require.Equal(t, 4*time.Minute, b.delay(order.History{Attempts: 5}, 4*time.Minute), "a floor is a floor")
}

func TestRetryAfterIsAFloor(t *testing.T) {
	for name, value := range map[string]func() string{
		"seconds": func() string { return "7" },
		"date":    func() string { return time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c call) reply {
					if c.n == 1 {
						return reply{status: 503, header: map[string]string{"Retry-After": value()}}
					}
					return reply{}
				}, nil)
				rep := r.one("n")
				require.Equal(t, order.Accepted, rep.Verdict)
				at := r.api.times()
				require.GreaterOrEqual(t, at[1].Sub(at[0]), 7*time.Second)
				require.Less(t, at[1].Sub(at[0]), 8*time.Second)
			})
		})
	}
}

func TestLongRetryAfterGoesBackToTheQueueWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 503, header: map[string]string{"Retry-After": "200"}} }, nil)
		rep := r.one("n")
		require.Equal(t, order.EndSubmissionBudget, rep.End)
		require.Equal(t, 1, rep.History.Attempts)
		require.Equal(t, 200*time.Second, rep.Delay)
	})
}

func TestTimestampsAreStrictlyLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // also when the last one came from a clock that was a little ahead
		r := newRig(t, func(c call) reply { return reply{err: errReset} }, func(c *Config) {
			c.RetryBase, c.RetryMax, c.BreakerRatio = time.Millisecond, time.Millisecond, 0
		})
		future := time.Now().UnixMilli() + 1500
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: order.History{Attempts: 1, LastTimestamp: future}})
		require.Equal(t, 6, rep.History.Attempts)
		last := future
		for _, c := range r.api.posts {
			require.Greater(t, c.stamp, last)
			require.Equal(t, "n", c.orderNo)
			last = c.stamp
		}
		require.Equal(t, last, rep.History.LastTimestamp)
	})
}

// A timestamp of a clock that was far ahead does not stay: the next attempt has the
// present time, and none has one that was used.
func TestTimestampsGoBackToThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply { return reply{err: errReset} }, func(c *Config) { c.BreakerRatio = 0 })
		future := time.Now().Add(10 * time.Minute).UnixMilli()
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: order.History{Attempts: 1, LastTimestamp: future}})
		require.Equal(t, 6, rep.History.Attempts)
		used := map[int64]bool{future: true}
		for _, c := range r.api.posts {
			require.False(t, used[c.stamp])
			require.InDelta(t, c.at.UnixMilli(), c.stamp, 500)
			used[c.stamp] = true
		}
	})
}

func TestTimestampIsMadeAfterAllWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, func(c *Config) { c.RateLimit = 1 })
		r.gate.Hold("test", time.Now().Add(5*time.Second))
		reports := r.many("n", 4)
		require.Equal(t, map[order.End]int{order.EndAnswer: 4}, ends(reports))
		for _, c := range r.api.posts {
			require.InDelta(t, c.at.UnixMilli(), c.stamp, 1, "no timestamp ends with 9")
		}
	})
}

func TestTotalBudget(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	attempts := func(h order.History) order.Report {
		var rep order.Report
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(call) reply { return reply{err: errReset, unread: true} }, func(c *Config) { c.RetryTotalAttempts = 8 })
			if !h.FirstAttemptAt.IsZero() { // to the bubble's clock
				shift := time.Since(now)
				h.FirstAttemptAt, h.LastAttemptAt = h.FirstAttemptAt.Add(shift), h.LastAttemptAt.Add(shift)
			}
			rep = *r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: h})
		})
		return rep
	}

	rep := attempts(order.History{Attempts: 6})
	require.Equal(t, order.EndTotalBudget, rep.End)
	require.Equal(t, 8, rep.History.Attempts, "exact over submissions")
	require.Equal(t, order.OutcomeExhausted, order.Decide(&rep, order.Facts{}).Outcome)

	rep = attempts(order.History{Attempts: 8, Unsure: true})
	require.Equal(t, order.EndTotalBudget, rep.End)
	require.Len(t, rep.Trail, 1)
	require.Equal(t, order.OutcomeUnknown, order.Decide(&rep, order.Facts{}).Outcome)

	rep = attempts(order.History{Attempts: 1, FirstAttemptAt: now.Add(-25 * time.Hour), LastAttemptAt: now.Add(-time.Minute)})
	require.Equal(t, order.EndTotalBudget, rep.End, "too old")

	rep = attempts(order.History{Attempts: 1, FirstAttemptAt: now.Add(-25 * time.Hour), LastAttemptAt: now.Add(-time.Minute),
		GateWaitMS: (2 * time.Hour).Milliseconds()})
	require.Equal(t, order.EndSubmissionBudget, rep.End, "time at the gate is no age")

	rep = attempts(order.History{Attempts: 1, FirstAttemptAt: now.Add(-72 * time.Hour), LastAttemptAt: now.Add(-71 * time.Hour)})
	require.Equal(t, order.EndSubmissionBudget, rep.End, "nor is a long stay in the queue")
	require.InDelta(t, (71*time.Hour - 5*time.Minute).Hours(), float64(rep.History.GateWaitMS)/3.6e6, 0.1)
}

// A key that is denied, or an API that throttles, for days exhausts nobody.
func TestAttemptsThatAreNotTheOrdersFaultExhaustNobody(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		want   order.End
	}{"denied": {401, order.EndHandBack}, "throttled": {429, order.EndSubmissionBudget}, "called back": {404, order.EndHandBack}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(call) reply { return reply{status: c.status} }, nil)
				first := time.Now().Add(-1000 * time.Hour)
				rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"),
					History: order.History{Attempts: 1000, FirstAttemptAt: first, LastAttemptAt: time.Now()}})
				require.Equal(t, c.want, rep.End)
				require.Greater(t, rep.History.Attempts, 1000)
			})
		})
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 425} }, func(c *Config) {
			c.RetryBase, c.RetryMax, c.RetrySubmissionAttempts, c.RetrySubmissionTime = 2*time.Second, 2*time.Second, 1000, time.Hour
		})
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "late"), Deadline: time.Now().Add(-time.Second)})
		require.Equal(t, order.EndDeadline, rep.End)
		require.Zero(t, rep.History.Attempts)

		deadline := time.Now().Add(10 * time.Second)
		rep = r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), Deadline: deadline})
		require.Equal(t, order.EndDeadline, rep.End)
		require.Equal(t, order.OutcomeExpired, order.Decide(rep, order.Facts{}).Outcome)
		require.WithinDuration(t, deadline, time.Now(), 2*time.Millisecond, "ends at the deadline, not at the next attempt after it")
		for _, at := range r.api.times() {
			require.False(t, at.After(deadline))
		}
		require.Greater(t, rep.History.Attempts, 3)

		// The delay in the queue ends at the deadline, so that it is recorded in time.
		r.cfg.RetrySubmissionAttempts = 1
		rep = r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "m"), Deadline: time.Now().Add(3 * time.Second)})
		require.Equal(t, order.EndSubmissionBudget, rep.End)
		require.LessOrEqual(t, rep.Delay, 3*time.Second+time.Millisecond)
	})
}

func TestDeadlinePassesAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, accept, nil)
		r.Gate().Hold("test", time.Now().Add(5*time.Second))
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), Deadline: time.Now().Add(2 * time.Second)})
		require.Equal(t, order.EndDeadline, rep.End)
		require.Empty(t, r.api.posts)
	})
}

func TestGateWaitSpendsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, func(c call) reply {
			if c.n == 1 {
				r.Gate().Hold("test", time.Now().Add(100*time.Hour))
				return reply{status: 425}
			}
			return reply{}
		}, func(c *Config) { c.GatePatience = 1000 * time.Hour })
		rep := r.one("n")
		require.Equal(t, order.Accepted, rep.Verdict)
		require.Equal(t, 2, rep.History.Attempts)
		require.InDelta(t, 100*3600e3, rep.History.GateWaitMS, 1000)
	})
}

func TestTrailIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 425, body: strings.Repeat("abc", 1000)} }, func(c *Config) {
			c.RetrySubmissionAttempts, c.RetrySubmissionTime, c.RetryTotalAttempts = 50, time.Hour, 100
		})
		rep := r.one("n")
		require.Equal(t, 50, rep.History.Attempts)
		require.Len(t, rep.Trail, maxTrail)
		require.Equal(t, rep.History.LastAttemptAt, rep.Trail[maxTrail-1].At)
		require.Equal(t, strings.Repeat("abc", 1000)[:maxTrailAnswer], rep.Trail[0].Answer)
		require.True(t, slices.IsSortedFunc(rep.Trail, func(a, b order.Attempt) int { return a.At.Compare(b.At) }))
	})
}

// A record tells its times in UTC, whatever the zone of the worker's machine is.
func TestTimesOfAttemptsAreInUTC(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("Kathmandu", 5*3600+45*60)
	t.Cleanup(func() { time.Local = local })
	r := newRig(t, func(call) reply { return reply{} }, nil)
	h := r.one("n").History
	require.Equal(t, 1, h.Attempts)
	require.Equal(t, time.UTC, h.FirstAttemptAt.Location())
	require.Equal(t, time.UTC, h.LastAttemptAt.Location())
}

func TestResponseIsBoundedAndScrubbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			return reply{status: 422, body: fmt.Sprintf("unknown key %s \xff %s", keyA, "äöüäöüäöüäöüäöüäöüäöü")}
		}, func(c *Config) { c.ResponseLimit, c.RefusalRun = 51, 0 })
		rep := r.one("n")
		require.NotContains(t, rep.Response, keyA)
		require.Contains(t, rep.Response, "AK…0A")
		require.LessOrEqual(t, len(rep.Response), 60)
		require.NotContains(t, r.log.String(), keyA)
		for limit := range 60 { // wherever the cut falls
			r.cfg.ResponseLimit = limit
			require.NotContains(t, r.one(fmt.Sprint(limit)).Response, keyA[:6])
		}
	})
}
