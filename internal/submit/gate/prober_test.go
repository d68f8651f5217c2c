package gate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// Two workers try one shared block each, for the whole fleet, and follow the
// other's. If a followed block stopped the trial, both would wait for ever, as a
// run of chaos showed.
func TestATrialForAllDoesNotWaitForTheOthersTrial(t *testing.T) {
	for _, c := range []struct {
		name  string
		other func(g *Gate)
	}{
		{"followed", func(g *Gate) { g.Follow(BlockBreaker, "another worker asks for all") }},
		{"parked", func(g *Gate) {
			g.Probe(BlockBreaker, "requests keep failing")
			g.Park(BlockBreaker)
			g.Follow(BlockBreaker, "another worker asks for all")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestGate()
				c.other(g)
				require.False(t, g.Open(), "a follower sends nothing")
				g.KeySuspected("denied")
				probe(t, g)
				g.Probed(true, "")
				require.True(t, g.Open(), "its own trial wants an order")
				p, err := g.Enter(t.Context(), false)
				require.NoError(t, err)
				p.Release(Signal{Verdict: order.Accepted})
				require.Nil(t, credentials(g))
				require.False(t, g.Open(), "the other's block stands")
			})
		})
	}
}

// A person's hold is none of the fleet's blocks: no trial passes it.
func TestATrialForAllWaitsForAPersonsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.Hold("maintenance", time.Time{})
		g.KeySuspected("denied")
		probe(t, g)
		g.Probed(true, "")
		require.False(t, g.Open())
	})
}
