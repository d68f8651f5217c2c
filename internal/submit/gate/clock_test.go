package gate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func clockBlock(g *Gate) *BlockState {
	for _, b := range g.State().Blocks {
		if b.Name == BlockClock {
			return &b
		}
	}
	return nil
}

// While the clock looks wrong the account is asked every two seconds, and an order is
// tried ever more rarely. Once the clock is right, the gate opens at the next look.
func TestAWrongClockIsWatchedAndRarelyTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		began := time.Now()
		g.ClockOff("ten minutes behind")
		g.ClockOff("of the same burst")
		var trials []time.Duration
		for time.Since(began) < 10*time.Minute {
			probe(t, g)
			g.ClockLooked("ten minutes behind")
			g.Probed(true, "")
			if b := clockBlock(g); b.Stage == StageTrial {
				trials = append(trials, time.Since(began).Round(time.Second))
				p, err := g.Enter(t.Context(), false, nil)
				require.NoError(t, err)
				g.ClockOff("still ten minutes behind")
				p.Release(Signal{Verdict: order.Denied})
			}
			require.False(t, g.Open())
		}
		require.Less(t, len(trials), 8, "%s", trials)
		require.Greater(t, len(trials), 3, "%s", trials)

		was := time.Now()
		probe(t, g)
		g.ClockLooked("")
		g.Probed(true, "")
		require.Nil(t, clockBlock(g))
		require.True(t, g.Open())
		require.Less(t, time.Since(was), 5*time.Second)
	})
}

// A denial on trial that is not for the timestamp lifts the block: another one takes over.
func TestADenialOfARightTimestampIsNotTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.ClockOff("unknown")
		g.Resume()
		probe(t, g)
		g.ClockLooked("unknown")
		g.Probed(true, "")
		require.Equal(t, StageTrial, clockBlock(g).Stage, "a person asked for a trial")
		p, err := g.Enter(t.Context(), false, nil)
		require.NoError(t, err)
		g.KeySuspected("denied")
		p.Release(Signal{Verdict: order.Denied})
		require.Nil(t, clockBlock(g))
		require.NotNil(t, credentials(g))
	})
}
