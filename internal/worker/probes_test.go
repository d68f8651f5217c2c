package worker_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// crowd is a large fleet whose requests are counted.
type crowd struct {
	*rig
	members []*member
	asked   []atomic.Int64 // requests of each, probes of the account included
}

const (
	crowdOrders   = 300
	crowdInFlight = 2 // of each member
)

func newCrowd(t *testing.T, size int) *crowd {
	c := &crowd{rig: newRig(t, order.Resubmit, func(s *sandbox.Settings) { s.Latency = 20 * time.Millisecond }), asked: make([]atomic.Int64, size)}
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
			held := slices.ContainsFunc(blocks, func(b gate.BlockState) bool { return b.Name == block+"-elsewhere" })
			if !held && (prober >= 0 || !slices.ContainsFunc(blocks, func(b gate.BlockState) bool { return b.Name == block })) {
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

// requests are those of each member so far.
func (c *crowd) requests() []int64 {
	out := make([]int64, len(c.asked))
	for i := range c.asked {
		out[i] = c.asked[i].Load()
	}
	return out
}

// asking counts the requests since then, and who sent any.
func (c *crowd) asking(then []int64) (requests int64, members int) {
	for i, now := range c.requests() {
		if now > then[i] {
			requests += now - then[i]
			members++
		}
	}
	return requests, members
}

// incident is what stops a fleet.
type incident struct {
	block      string
	fail, mend func(*rig) error
	// each is how many requests one member sends before it has heard of the
	// others: what it may have in flight, for the breaker what that needs to
	// open, and probes, whose distances double: a busy machine is slow to tell.
	each int64
	// askers is how many may ask once all are held: one, and successors of one
	// that a busy machine kept from saying that it is there.
	askers int
}

var (
	keyRevoked = incident{gate.BlockCredentials, func(r *rig) error { r.api.RevokeKey("key"); return nil },
		func(r *rig) error { return r.api.AddKey("key", "secret") }, crowdInFlight + 6, 3}
	apiDown = incident{gate.BlockBreaker, func(r *rig) error { return r.api.Update(func(s *sandbox.Settings) { s.Down = sandbox.DropAll }) },
		func(r *rig) error { return r.api.Update(func(s *sandbox.Settings) { s.Down = sandbox.Up }) }, 2*crowdInFlight + 2 + 6, 3}
)

// TestAFleetProbesAsOne: from when the workers know of each other one of them
// asks, a second one where the first dies, and all go on once the answer is good.
func TestAFleetProbesAsOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		incident
		size int
		kill bool
	}{
		"ten, API down":                  {apiDown, 10, false},
		"four, key revoked, prober dies": {keyRevoked, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newCrowd(t, c.size).endure(c.incident, c.kill)
		})
	}
}

// endure lets the crowd run into the incident, and out of it.
func (c *crowd) endure(tr incident, kill bool) {
	t := c.t
	require.NoError(t, tr.fail(c.rig))
	c.publish(c.members[0].q, many("A", crowdOrders)...)
	dead := -1
	alive := func(i int) bool { return i != dead }
	prober := c.prober(tr.block, alive)
	c.eventually(20*time.Second, c.quiet, "attempts under way end")
	shut := c.requests()
	sent, _ := c.asking(make([]int64, len(shut)))
	t.Logf("%d requests of %d workers before one asked for all", sent, len(shut))
	require.LessOrEqual(t, sent, int64(len(shut))*tr.each)
	// The distance of probes has doubled with each so far.
	c.eventually(2*time.Minute, func() bool { n, _ := c.asking(shut); return n > 0 }, "somebody asks")
	_, askers := c.asking(shut)
	require.LessOrEqual(t, askers, tr.askers, "too many asked the API")
	if kill {
		dead = prober
		c.members[dead].kill()
		require.NotEqual(t, dead, c.prober(tr.block, alive))
		before := c.requests()
		c.eventually(30*time.Second, func() bool { n, _ := c.asking(before); return n > 0 }, "its successor asks")
	}
	require.NoError(t, tr.mend(c.rig))
	c.eventually(4*time.Minute, func() bool { // the next probe may be far
		for i, m := range c.members {
			if alive(i) && !m.submitter.Gate().Open() {
				return false
			}
		}
		return true
	}, "all go on")
	c.eventually(60*time.Second, func() bool { return c.created() == crowdOrders }, "all orders")
}

// quiet: nobody has an attempt under way.
func (c *crowd) quiet() bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return m.submitter.Gate().State().InFlight > 0 })
}
