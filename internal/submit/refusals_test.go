package submit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// A wrong URL or rules file over many orders: nothing is dead-lettered.
func TestRunOfRefusalsGoesBackToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refuse, func(c *Config) { c.HoldRetry = 0 })
		reports := r.many("n", 500)
		require.Equal(t, map[order.End]int{order.EndHandBack: 500}, ends(reports))
		posts, _ := r.api.calls()
		require.LessOrEqual(t, posts, 20+20, "the run, and what was in flight")
		require.False(t, r.Gate().Open())
		require.Contains(t, r.Gate().State().Reasons[0], "run of refusals")
		require.Equal(t, 1, strings.Count(r.log.String(), "run of refusals"))
		for _, rep := range reports {
			if rep.History.Attempts > 0 {
				require.Equal(t, order.Rejected, rep.Verdict)
				require.Equal(t, order.ActHandBack, order.Decide(&rep, order.Facts{}).Action)
			}
		}
	})
}

func TestFewRefusalsAreBelievedAfterAQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refuse, nil)
		began := time.Now()
		reports := r.many("n", 19)
		require.Equal(t, map[order.End]int{order.EndAnswer: 19}, ends(reports))
		require.Equal(t, 2*time.Second, time.Since(began))
		require.True(t, r.Gate().Open())

		// The run goes on: the twentieth distinct order holds the pool.
		require.Equal(t, order.EndHandBack, r.one("m").End)
		require.False(t, r.Gate().Open())
	})
}

func TestRunCountsDistinctOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, refuse, nil)
		for range 50 {
			require.Equal(t, order.EndAnswer, r.one("same").End)
		}
		require.True(t, r.Gate().Open())
	})
}

func TestAcceptanceConfirmsRefusals(t *testing.T) {
	for status, body := range map[int]string{200: `{"code":0}`, 409: `{"code":"ORDER_EXISTS"}`} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c call) reply {
					if c.orderNo == "good" {
						return reply{status: status, body: body, after: time.Second}
					}
					return reply{status: 422}
				}, nil)
				r.warm()
				var wg sync.WaitGroup
				began := time.Now()
				wg.Go(func() { r.one("good") })
				require.Equal(t, map[order.End]int{order.EndAnswer: 10}, ends(r.many("bad", 10)))
				require.Equal(t, time.Second, time.Since(began), "as soon as the API is seen to create orders")
				wg.Wait()
			})
		})
	}
}

func TestMixedTrafficIsNeverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			after := time.Duration(10+c.n*7%13) * time.Millisecond
			if c.n%2 != 0 {
				return reply{status: 422, after: after}
			}
			return reply{after: after}
		}, nil)
		began := time.Now()
		require.Equal(t, map[order.End]int{order.EndAnswer: 2000}, ends(r.many("n", 2000)))
		require.Less(t, time.Since(began), 5*time.Second, "refusals do not slow the pool down")
		require.NotContains(t, r.log.String(), "run of refusals")
	})
}

func TestARefusalWaitsNoLongerThanRefusalWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.orderNo == "slow" {
				return reply{after: 29 * time.Second}
			}
			return reply{status: 422}
		}, nil)
		r.warm()
		go r.one("slow")
		synctest.Wait()
		began := time.Now()
		require.Equal(t, order.EndAnswer, r.one("bad").End)
		require.Equal(t, refusalWait, time.Since(began))
		time.Sleep(time.Minute)
	})
}

// A pool with fewer slots than the run is long cannot hold all of it back: what
// was quiet is believed, but the run goes on counting. Never more than the run's
// length, less one, is believed before the pool holds.
func TestAShortPoolBelievesLessThanARun(t *testing.T) {
	for _, slots := range []int{1, 3, 10, 19, 20, 64} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(call) reply { return reply{status: 422} }, func(c *Config) { c.Concurrency, c.HoldRetry = slots, 0 })
				believed := 0
				for n := 0; r.Gate().Open(); n += slots { // as the intake does: no more than there are slots
					for i, rep := range r.many(fmt.Sprint("n-", n), slots) {
						if rep.End == order.EndAnswer {
							require.Equal(t, order.Rejected, rep.Verdict, "%d", i)
							believed++
						}
					}
				}
				t.Logf("%d slots: %d believed", slots, believed)
				require.Less(t, believed, r.cfg.RefusalRun)
				if slots >= r.cfg.RefusalRun {
					require.Zero(t, believed)
				} else {
					require.Positive(t, believed)
				}
			})
		})
	}
}

func TestShutdownWhileARefusalIsHeldBack(t *testing.T) {
	for _, created := range []bool{false, true} {
		t.Run(fmt.Sprint(created), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c call) reply {
					if c.orderNo == "good" {
						return reply{}
					}
					return reply{status: 422}
				}, nil)
				want := order.EndHandBack
				if created {
					r.one("good")
					want = order.EndAnswer
				}
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(time.Second, cancel)
				require.Equal(t, want, r.Submit(ctx, &order.Submission{Order: newOrder(t, "bad")}).End)
			})
		})
	}
}

func TestNotFoundHoldsAtOnce(t *testing.T) {
	for _, status := range []int{404, 405} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(call) reply { return reply{status: status} }, func(c *Config) { c.HoldRetry = 0 })
			reports := r.many("n", 100)
			require.Equal(t, map[order.End]int{order.EndHandBack: 100}, ends(reports))
			posts, _ := r.api.calls()
			require.Equal(t, 1, posts, "the ramp starts with one")
			require.Contains(t, r.Gate().State().Reasons[0], "ORDERPOST_API_URL")
		})
	}
}

// One order that the API answers 404 to, whatever the reason, does not stop
// the pool for ever.
func TestNotFoundForASingleOrderIsItsOwnFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.orderNo == "bad" {
				return reply{status: 404}
			}
			return reply{}
		}, nil)
		require.Equal(t, order.EndHandBack, r.one("bad").End)
		require.NoError(t, r.Gate().Wait(context.Background()))
		done := make(chan order.Report)
		go func() { done <- r.one("bad") }() // redelivered first, and yet lets others go first
		synctest.Wait()
		require.Equal(t, order.Accepted, r.one("good").Verdict)
		rep := <-done
		require.Equal(t, order.EndAnswer, rep.End)
		require.Equal(t, order.Rejected, rep.Verdict)
		require.True(t, r.Gate().Open())
	})
}

func TestRuleMakesNotFoundAPlainRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply { return reply{status: 404, body: `{"code":5}`} }, nil)
		r.judge.Rules = mustRules(t, "rules:\n  - when: status == 404 && body.code == 5\n    verdict: rejected\n")
		require.Equal(t, order.EndAnswer, r.one("n").End)
		require.True(t, r.Gate().Open())
	})
}

func TestTrialAfterARunOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := true
		r := newRig(t, func(c call) reply {
			if wrong {
				return reply{status: 422}
			}
			return reply{}
		}, func(c *Config) { c.GatePatience = 24 * time.Hour })
		r.many("n", 64) // some wait at the gate and become the trials
		posts, _ := r.api.calls()
		require.GreaterOrEqual(t, posts, 64, "each was tried in the end, and went back")
		wrong = false
		time.Sleep(10 * time.Minute)
		require.Equal(t, map[order.End]int{order.EndAnswer: 30}, ends(r.many("m", 30)))
		require.True(t, r.Gate().Open())
	})
}

func TestResumeVouchesForRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.orderNo == "good" {
				return reply{}
			}
			return reply{status: 422}
		}, func(c *Config) { c.HoldRetry = 0 })
		r.many("n", 40)
		require.False(t, r.Gate().Open())
		r.Gate().Resume()
		began := time.Now()
		require.Equal(t, map[order.End]int{order.EndAnswer: 300}, ends(r.many("n", 300)), "a person has looked")
		require.Zero(t, time.Since(began))
		require.Equal(t, order.Accepted, r.one("good").Verdict)
		require.Equal(t, map[order.End]int{order.EndAnswer: 300}, ends(r.many("k", 300)), "also beyond an acceptance")
		time.Sleep(trustTime)
		r.many("m", 40)
		require.False(t, r.Gate().Open(), "a person's word does not hold for ever")
	})
}
