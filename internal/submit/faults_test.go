package submit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// Three orders are throttled whenever they come. The others must not wait for
// them, and they must come to an end themselves.
func TestOrdersThatAreAlwaysThrottledStopNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		always := []string{"good-7", "good-8", "good-9"}
		r := newRig(t, func(c call) reply {
			if slices.Contains(always, c.orderNo) {
				return reply{status: 429, after: 10 * time.Millisecond}
			}
			return reply{after: 10 * time.Millisecond}
		}, func(c *Config) { c.Concurrency, c.RetryTotalAttempts = 8, 20 })
		began := time.Now()
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8)
		var mu sync.Mutex
		results, last := map[string]order.Report{}, time.Time{}
		for i := range 2000 {
			no := fmt.Sprintf("good-%d", i)
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				rep := r.one(no)
				mu.Lock()
				defer mu.Unlock()
				if results[no] = rep; rep.Verdict == order.Accepted {
					last = time.Now()
				}
			})
		}
		wg.Wait()
		require.Less(t, last.Sub(began), 30*time.Second, "the good orders, with at most a few throttles of the pool")
		for no, rep := range results {
			if !slices.Contains(always, no) {
				require.Equal(t, order.Accepted, rep.Verdict, no)
				continue
			}
			for submissions := 0; rep.End != order.EndTotalBudget; submissions++ { // as the queue would bring it again
				require.Less(t, submissions, 20)
				time.Sleep(rep.Delay)
				other := r.one(fmt.Sprintf("other-%s-%d", no, submissions)) // others go on
				require.Equal(t, order.Accepted, other.Verdict)
				rep = *r.Submit(context.Background(), &order.Submission{Order: newOrder(t, no), History: rep.History})
			}
			require.Equal(t, order.EndTotalBudget, rep.End, no)
		}
		require.Contains(t, r.log.String(), "the API throttles only this order")
	})
}

// An order that is always throttled is exhausted in the end.
func TestAnOrdersOwnThrottlesExhaustIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c call) reply {
			if c.orderNo == "bad" {
				return reply{status: 429, header: map[string]string{"Retry-After": "2"}}
			}
			return reply{}
		}, func(c *Config) { c.RetryTotalAttempts = 12 })
		history, ends := order.History{}, []order.End(nil)
		for n := 0; len(ends) == 0 || ends[len(ends)-1] != order.EndTotalBudget; n++ {
			require.Less(t, n, 20)
			stop := make(chan struct{})
			var others sync.WaitGroup
			others.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						r.one(fmt.Sprintf("good-%d-%d", n, i))
					}
				}
			})
			rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "bad"), History: history})
			history = rep.History
			ends = append(ends, rep.End)
			if rep.End == order.EndTotalBudget {
				require.Equal(t, order.OutcomeExhausted, order.Decide(rep, order.Facts{}).Outcome)
				require.Equal(t, "only this order is throttled, while others are answered", rep.Error)
			}
			close(stop)
			others.Wait()
		}
		require.GreaterOrEqual(t, history.Attempts, 12)
		require.Less(t, strings.Count(r.log.String(), "gate closed"), history.Attempts/2, "the pool waits for the first throttles only")
	})
}

// An API with a limit throttles any order: the pool waits, and nobody is
// exhausted however often it happens.
func TestALimitOfTheAPIIsThePools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		taken, second := 0, int64(0)
		r := newRig(t, func(call) reply {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now().Unix(); now != second {
				taken, second = 0, now
			}
			if taken++; taken > 5 {
				return reply{status: 429, header: map[string]string{"Retry-After": "1"}}
			}
			return reply{after: 10 * time.Millisecond}
		}, func(c *Config) {
			c.Concurrency, c.RetryTotalAttempts, c.RetrySubmissionAttempts, c.RetrySubmissionTime = 16, 6, 1000, time.Hour
			c.GatePatience = time.Hour
		})
		reports := r.many("n", 300)
		for _, rep := range reports {
			require.Equal(t, order.Accepted, rep.Verdict, rep.Error)
		}
		require.Positive(t, strings.Count(r.log.String(), "the API asks for slower requests"))
	})
}

func TestOrdersThatFailedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaults()
		for i := range faultsRemembered + 10 {
			require.Zero(t, f.failed(faultThrottle, fmt.Sprint(i), &f.api, time.Now()))
			time.Sleep(time.Millisecond)
		}
		require.Len(t, f.orders, faultsRemembered)
		last := fmt.Sprint(faultsRemembered + 9)
		f.concluded(last, order.Rejected, &pairState{shared: &shared{}}, time.Now())
		require.NotContains(t, f.orders, last)
		require.Len(t, f.orders, faultsRemembered-1)
	})
}
