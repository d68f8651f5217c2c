package gate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// Two workers each try one shared block for the fleet and have the other block
// as a remote one. If a remote block stopped a trial, both would wait forever. A
// chaos run showed this.
func TestATrialForAllDoesNotWaitForTheOthersTrial(t *testing.T) {
	for _, c := range []struct {
		name  string
		other func(g *Gate)
	}{
		{"followed", func(g *Gate) { g.ShutRemote(BlockBreaker, "another worker asks for all") }},
		{"deferred", func(g *Gate) {
			g.ShutAndProbe(BlockBreaker, "requests keep failing")
			g.DeferProbe(BlockBreaker)
			g.ShutRemote(BlockBreaker, "another worker asks for all")
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

// A person's hold is not a shared block, so it stops every trial.
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
