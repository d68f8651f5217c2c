package queue

import (
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// brokerModel returns how long a broker takes for n writes.
type brokerModel func(mode flushMode, n int) time.Duration

func synced(mode flushMode, n int) time.Duration { // 300 µs an fsync
	if mode == together {
		return time.Millisecond
	}
	return time.Duration(n) * 300 * time.Microsecond
}

func unsynced(mode flushMode, n int) time.Duration { // staging costs as much as thirty writes
	each := time.Duration(n) * 20 * time.Microsecond
	if mode == together {
		each += 600 * time.Microsecond
	}
	return each
}

// far adds a network round trip of 2 ms to a broker.
func far(near brokerModel) brokerModel {
	return func(mode flushMode, n int) time.Duration { return 2*time.Millisecond + near(mode, n) }
}

// play flushes batches of n, and returns how many writes went together.
func (b brokerModel) play(m *flushModes, flushes, n int) (batched int) {
	m.roundTrip = func() time.Duration { return b(singly, 0) }
	for range flushes {
		alone := m.singles(n)
		if alone > 0 {
			m.observeSingly(alone, b(singly, alone))
		}
		if rest := n - alone; rest > 0 {
			m.observeTogether(rest, b(together, rest))
			batched += rest
		}
	}
	return batched
}

// learning is how many samples are taken before the first regular one.
var learning = bits.Len(sampleEvery) - 1

func TestTheFasterFlushModeIsFound(t *testing.T) {
	const flushes, n = 4 * sampleEvery, 64
	require.GreaterOrEqual(t, brokerModel(synced).play(&flushModes{}, flushes, n), flushes*n-(learning+5)*fewSingles, "a few writes to learn, and in one flush of %d", sampleEvery)
	require.LessOrEqual(t, brokerModel(unsynced).play(&flushModes{}, flushes, n), (learning+6)*n)
	require.LessOrEqual(t, far(unsynced).play(&flushModes{}, flushes, n), (learning+6)*n, "the round trip is no part of it")
	require.GreaterOrEqual(t, far(synced).play(&flushModes{}, flushes, n), flushes*n-(learning+5)*10, "a sample takes no longer than a batch")
}

// A batch costs the same for few writes as for many.
func TestFewWritesGoTogetherIfTheyWouldCostMore(t *testing.T) {
	for name, c := range map[string]struct {
		broker brokerModel
		n      int
		want   bool
	}{
		"three fsyncs, as long as a batch": {synced, 3, false},
		"eight fsyncs":                     {synced, 8, true},
		"eight fsyncs, far away":           {far(synced), 8, true},
		"in memory":                        {unsynced, 8, false},
		"in memory, far away":              {far(unsynced), 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &flushModes{}
			c.broker.play(m, 10, 64)
			m.flushes = sampleEvery // the next is no sample
			require.Equal(t, c.want, c.broker.play(m, 1, c.n) == c.n)
		})
	}
}

// A first flush that took long, because the program or the broker had only
// begun, does not decide for long.
func TestASlowStartIsForgotten(t *testing.T) {
	const n = 64
	for name, c := range map[string]struct {
		broker  brokerModel
		slow    flushMode
		batched bool
	}{"single writes": {unsynced, singly, false}, "a batch": {synced, together, true}} {
		t.Run(name, func(t *testing.T) {
			m, first := &flushModes{}, true
			b := brokerModel(func(mode flushMode, n int) time.Duration {
				d := c.broker(mode, n)
				if first && mode == c.slow && n > 1 {
					d, first = 100*d, false
				}
				return d
			})
			b.play(m, sampleEvery/2, n)
			require.False(t, first)
			m.flushes = sampleEvery // the next is no sample
			require.Equal(t, c.batched, b.play(m, 1, n) == n)
		})
	}
}

// A round trip that something disturbed makes single writes look as if they took no time. A
// thousand of them on a slow disk take seconds: that may be tried once.
func TestADisturbedRoundTripDecidesOnce(t *testing.T) {
	const flushes, n = 64, 1000
	for _, disturbed := range []time.Duration{50 * time.Millisecond, 7900 * time.Microsecond} {
		first := true
		b := brokerModel(func(mode flushMode, n int) time.Duration {
			switch {
			case n == 0 && first:
				first = false
				return disturbed
			case mode == together:
				return 100 * time.Millisecond
			default:
				return time.Duration(n) * 2 * time.Millisecond
			}
		})
		require.GreaterOrEqual(t, b.play(&flushModes{}, flushes, n), (flushes-2)*n, disturbed)
	}
}

// Until a batch was tried, few writes are no reason to.
func TestFewWritesGoSingly(t *testing.T) {
	require.Zero(t, brokerModel(synced).play(&flushModes{}, 2*sampleEvery, fewSingles))
}

// A store that moves to a slower disk, or a cluster that loses a node, is
// noticed.
func TestTheFlushModeAdaptsToTheBroker(t *testing.T) {
	const n = 64
	m := &flushModes{}
	brokerModel(unsynced).play(m, 2*sampleEvery, n)
	brokerModel(synced).play(m, sampleEvery, n)
	require.GreaterOrEqual(t, brokerModel(synced).play(m, sampleEvery, n), (sampleEvery-2)*n)
}
