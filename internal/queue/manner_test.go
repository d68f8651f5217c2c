package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// broker is how long one takes for n writes.
type mannerBroker func(w way, n int) time.Duration

func synced(w way, n int) time.Duration { // 300 µs an fsync
	if w == together {
		return time.Millisecond
	}
	return time.Duration(n) * 300 * time.Microsecond
}

func unsynced(w way, n int) time.Duration { // staging costs as much as thirty writes
	each := time.Duration(n) * 20 * time.Microsecond
	if w == together {
		each += 600 * time.Microsecond
	}
	return each
}

// far is a broker at a distance.
func far(near mannerBroker) mannerBroker {
	return func(w way, n int) time.Duration { return 2*time.Millisecond + near(w, n) }
}

// play flushes batches of n, and a write alone beside each, and counts how many writes went together.
func (b mannerBroker) play(m *manner, flushes, n int) (batched int) {
	for range flushes {
		m.took(singly, 1, b(singly, 1))
		alone := m.singly(n)
		m.took(singly, alone, b(singly, alone))
		m.took(together, n-alone, b(together, n-alone))
		batched += n - alone
	}
	return batched
}

func TestTheQuickerWayIsFound(t *testing.T) {
	const flushes, n = 4 * tryOther, 64
	require.GreaterOrEqual(t, mannerBroker(synced).play(&manner{}, flushes, n), flushes*n-5*minWriteBatch, "a few writes to learn, and in one flush of %d", tryOther)
	require.LessOrEqual(t, mannerBroker(unsynced).play(&manner{}, flushes, n), 6*n)
	require.LessOrEqual(t, far(unsynced).play(&manner{}, flushes, n), 6*n, "the round trip is no part of it")
	require.GreaterOrEqual(t, far(synced).play(&manner{}, flushes, n), flushes*n-5*minWriteBatch)
}

func TestFewWritesGoSingly(t *testing.T) {
	require.Zero(t, mannerBroker(synced).play(&manner{}, 2*tryOther, minWriteBatch-1))
}

// A store that moves to a slower disk, or a cluster that loses a node, is
// noticed.
func TestTheMannerFollowsTheBroker(t *testing.T) {
	const n = 64
	m := &manner{}
	mannerBroker(unsynced).play(m, 2*tryOther, n)
	mannerBroker(synced).play(m, tryOther, n)
	require.GreaterOrEqual(t, mannerBroker(synced).play(m, tryOther, n), (tryOther-2)*n)
}
