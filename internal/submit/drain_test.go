package submit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestLeaveEndsWaitsAndNoAttempt: whatever an order waits for, it is handed
// back at once; an attempt under way comes to its end.
func TestLeaveEndsWaitsAndNoAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		reply       reply
		change      func(*Config)
		before      func(*rig)
		submissions int
		posts       int
	}{
		"backoff":    {reply{status: 503}, func(c *Config) { c.RetryBase, c.RetryMax, c.RetrySubmissionTime = time.Hour, time.Hour, 5*time.Hour }, nil, 1, 1},
		"hold":       {reply{}, nil, func(r *rig) { r.Gate().Hold("lunch", time.Time{}) }, 5, 0},
		"rate limit": {reply{}, func(c *Config) { c.RateLimit = 0.001 }, nil, 5, 1},
		"ramp":       {reply{hang: true}, func(c *Config) { c.RequestTimeout = time.Minute }, nil, 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(call) reply { return c.reply }, func(cfg *Config) {
					cfg.GatePatience = time.Hour
					if c.change != nil {
						c.change(cfg)
					}
				})
				if c.before != nil {
					c.before(r)
				}
				done := make(chan order.Report, c.submissions)
				for i := range c.submissions {
					go func() { done <- r.one(string(rune('a' + i))) }()
				}
				synctest.Wait()
				began := time.Now()
				r.Drain()
				r.Drain()
				left := 0
				for range c.submissions {
					rep := <-done
					if rep.End == order.EndHandBack && time.Since(began) == 0 {
						left++
					}
				}
				posts, _ := r.api.calls()
				require.Equal(t, c.posts, posts)
				switch name {
				case "ramp": // the one attempt under way ends by its own timeout, and is handed back then
					require.Equal(t, c.submissions-1, left)
					require.Equal(t, time.Minute, time.Since(began))
				case "rate limit":
					require.Equal(t, c.submissions-1, left)
				default:
					require.Equal(t, c.submissions, left)
				}
			})
		})
	}
}

// TestLeaveWhileAKeyIsDenied: the denied order does not wait for the evidence.
func TestLeaveWhileAKeyIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &keyAPI{deniedKeys: map[string]bool{keyA: true}}
		r := newKeyRig(t, a, StaticKeys{pair(keyA)}, func(c *Config) { c.ProbeDelay, c.GatePatience = 20*time.Second, time.Hour })
		done := make(chan order.Report, 3)
		for i := range 3 {
			go func() { done <- r.one(string(rune('a' + i))) }()
		}
		time.Sleep(time.Second)
		began := time.Now()
		r.Drain()
		for range 3 {
			require.Equal(t, order.EndHandBack, (<-done).End)
		}
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, r.Gate().Wait(cancelled()), context.Canceled, "the gate itself stays as it is")
	})
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
