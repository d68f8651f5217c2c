package worker_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit"
)

// crowd is a large fleet whose requests are counted.
type crowd struct {
	*rig
	members []*member
	asked   []atomic.Int64 // requests of each, probes of the account included
}

const (
	crowdSize     = 50
	crowdOrders   = 400
	crowdInFlight = 2 // of each member
)

func newCrowd(t *testing.T) *crowd {
	c := &crowd{rig: newRig(t, order.Resubmit, func(s *sandbox.Settings) { s.Latency = 20 * time.Millisecond }), asked: make([]atomic.Int64, crowdSize)}
	for i := range c.asked {
		c.members = append(c.members, c.join(fmt.Sprintf("w%02d", i), 0, transport(func(req *http.Request) (*http.Response, error) {
			c.asked[i].Add(1)
			return http.DefaultTransport.RoundTrip(req)
		}), func(cfg *submit.Config) {
			cfg.Concurrency, cfg.BreakerMin = crowdInFlight, 2
			cfg.ProbeDelay, cfg.BreakerOpen = 200*time.Millisecond, 200*time.Millisecond
			cfg.RefusalQuiet = 50 * time.Millisecond
		}))
	}
	t.Cleanup(func() { // all at once, each takes as long as its last pull
		for _, m := range c.members {
			m.stop()
		}
	})
	return c
}

// prober waits until one member probes for all and the others are held.
func (c *crowd) prober(block string, alive func(int) bool) int {
	c.t.Helper()
	prober := -1
	c.eventually(60*time.Second, func() bool {
		prober = -1
		for i, m := range c.members {
			if !alive(i) {
				continue
			}
			blocks := m.submitter.Gate().State().Blocks
			held := slices.ContainsFunc(blocks, func(b submit.BlockState) bool { return strings.HasPrefix(b.Name, "hold: "+block) })
			if !held && (prober >= 0 || !slices.ContainsFunc(blocks, func(b submit.BlockState) bool { return b.Name == block })) {
				return false
			}
			if !held {
				prober = i
			}
		}
		return prober >= 0
	}, "one probes, the others are held")
	return prober
}

// requests counts those of one member, and of all others.
func (c *crowd) requests(one int) (own, others int64) {
	for i := range c.asked {
		if i == one {
			own = c.asked[i].Load()
		} else {
			others += c.asked[i].Load()
		}
	}
	return own, others
}

// TestAFleetOfFiftyProbesAsOne: the API is down, or the key is revoked, for
// fifty workers. Until they know of each other each sends what it may have in
// flight and, for the breaker, what it needs to open; from then on one of them
// asks, another one where that dies, and all go on once the answer is good.
func TestAFleetOfFiftyProbesAsOne(t *testing.T) {
	t.Parallel()
	for block, story := range map[string]struct {
		fail, mend func(*rig) error
		each       int64 // requests of one member before its own gate shuts
	}{
		submit.BlockCredentials: {func(r *rig) error { r.api.RevokeKey("key"); return nil }, func(r *rig) error { return r.api.AddKey("key", "secret") },
			crowdInFlight + 1}, // and one probe, before it heard of the others
		submit.BlockBreaker: {func(r *rig) error { return r.api.Update(func(s *sandbox.Settings) { s.Down = sandbox.DropAll }) },
			func(r *rig) error { return r.api.Update(func(s *sandbox.Settings) { s.Down = sandbox.Up }) },
			2*crowdInFlight + 2 + 1},
	} {
		t.Run(block, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			require.NoError(t, story.fail(c.rig))
			c.publish(c.members[0].q, many("A", crowdOrders)...)
			everybody := func(int) bool { return true }
			first := c.prober(block, everybody)
			c.eventually(20*time.Second, c.quiet, "attempts under way end")
			own, others := c.requests(first)
			t.Logf("%d requests of %d workers before one asked for all", own+others, crowdSize)
			require.LessOrEqual(t, own+others, crowdSize*story.each)

			c.eventually(30*time.Second, func() bool { now, _ := c.requests(first); return now >= own+2 }, "the prober asks again")
			_, now := c.requests(first)
			require.Equal(t, others, now, "somebody else asked the API")

			c.members[first].kill()
			alive := func(i int) bool { return i != first }
			second := c.prober(block, alive)
			require.NotEqual(t, first, second)
			c.eventually(30*time.Second, func() bool { _, now := c.requests(first); return now > others }, "its successor asks")
			require.NoError(t, story.mend(c.rig))
			c.eventually(60*time.Second, func() bool {
				for i, m := range c.members {
					if alive(i) && !m.submitter.Gate().Open() {
						return false
					}
				}
				return true
			}, "all go on")
			c.eventually(60*time.Second, func() bool { return c.created() == crowdOrders }, "all orders")
		})
	}
}

// quiet: nobody has an attempt under way.
func (c *crowd) quiet() bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return m.submitter.Gate().State().InFlight > 0 })
}
