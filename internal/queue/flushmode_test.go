package queue

import (
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

// play flushes batches of n, each beside a write alone, and returns how many writes
// went together.
func (b brokerModel) play(m *flushModes, flushes, n int) (batched int) {
	for range flushes {
		m.observe(singly, 1, b(singly, 1))
		alone := m.singles(n)
		m.observe(singly, alone, b(singly, alone))
		m.observe(together, n-alone, b(together, n-alone))
		batched += n - alone
	}
	return batched
}

func TestTheFasterFlushModeIsFound(t *testing.T) {
	const flushes, n = 4 * sampleEvery, 64
	require.GreaterOrEqual(t, brokerModel(synced).play(&flushModes{}, flushes, n), flushes*n-5*minWriteBatch, "a few writes to learn, and in one flush of %d", sampleEvery)
	require.LessOrEqual(t, brokerModel(unsynced).play(&flushModes{}, flushes, n), 6*n)
	require.LessOrEqual(t, far(unsynced).play(&flushModes{}, flushes, n), 6*n, "the round trip is no part of it")
	require.GreaterOrEqual(t, far(synced).play(&flushModes{}, flushes, n), flushes*n-5*minWriteBatch)
}

func TestFewWritesGoSingly(t *testing.T) {
	require.Zero(t, brokerModel(synced).play(&flushModes{}, 2*sampleEvery, minWriteBatch-1))
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
