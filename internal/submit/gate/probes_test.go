package gate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/platform/duration"
)

func newTestGate() *Gate {
	return New(Config{Concurrency: 4, Patience: time.Second, HoldRetry: time.Second, OthersFirst: time.Second, LongestWait: time.Minute,
		BreakerRatio: 0.5, BreakerMin: 2, BreakerWindow: 10 * time.Second, BreakerOpen: time.Second, ProbeDelay: time.Second},
		zerolog.Nop(), Hooks{Changed: func(State) {}, Resumed: func() {}})
}

// credentials returns the credentials block, or nil if it does not stand.
func credentials(g *Gate) *BlockState {
	for _, b := range g.State().Blocks {
		if b.Name == BlockCredentials {
			return &b
		}
	}
	return nil
}

// probe waits until the gate asks for a probe of the account.
func probe(t *testing.T, g *Gate) {
	t.Helper()
	for {
		next, due := g.Tick()
		if due {
			return
		}
		require.False(t, next.IsZero(), "nothing will ever ask the account")
		time.Sleep(time.Until(next))
	}
}

func TestOneMoreDenialOfAKeyChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.KeySuspected("first")
		until := credentials(g).Until
		time.Sleep(500 * time.Millisecond)
		g.KeySuspected("second")
		require.Equal(t, "first", credentials(g).Reason)
		require.Equal(t, until, credentials(g).Until)
		g.KeyDenied("another key")
		require.Equal(t, "another key", credentials(g).Reason)
		require.True(t, credentials(g).Until.After(until), "it is asked about in its turn")
	})
}

func TestAKeyThatTheAccountKnowsIsTriedByOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.KeySuspected("denied")
		probe(t, g)
		g.Probed(true, "")
		require.Equal(t, StageTrial, credentials(g).Stage)
		p, err := g.Enter(context.Background(), false, nil)
		require.NoError(t, err)
		onTrial, stands := g.TrialOf(p, BlockCredentials)
		require.True(t, onTrial)
		require.True(t, stands)
		p.Release(Signal{Verdict: order.Accepted})
		require.True(t, g.Open())
		require.Nil(t, credentials(g))
	})
}

func TestDeniedKeysAreAskedAboutLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.KeySuspected("denied")
		var waits []time.Duration
		for range 12 {
			began := time.Now()
			probe(t, g)
			waits = append(waits, time.Since(began))
			g.AllKeysDenied("every key is denied")
			g.Probed(true, "") // and does not let an order try a key that was just denied
			require.Equal(t, StageShut, credentials(g).Stage)
		}
		require.InDelta(t, 2, waits[1].Seconds(), 0.3)
		require.InDelta(t, 4, waits[2].Seconds(), 0.5)
		require.InDelta(t, maxProbeDelay.Seconds(), waits[11].Seconds(), 31)
	})
}

// The longest setting of time does not overflow when a hold doubles it.
func TestTheLongestHoldRetryDoubles(t *testing.T) {
	g := newTestGate()
	g.cfg.HoldRetry = duration.Longest
	for range 40 {
		g.HoldByAnswer(BlockAnswer, "odd")
		g.mu.Lock()
		b := g.blocks[BlockAnswer]
		left := time.Until(b.until)
		b.stage = StageTrial // which fails next
		g.mu.Unlock()
		require.Greater(t, left, duration.Longest-time.Hour)
	}
}

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
