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

// play flushes batches of n and counts how many went together.
func (b mannerBroker) play(m *manner, flushes, n int) (batches int) {
	for range flushes {
		w := singly
		if m.together(n) {
			w = together
			batches++
		}
		m.took(w, n, b(w, n))
	}
	return batches
}

func TestTheQuickerWayIsFound(t *testing.T) {
	const flushes = 4 * tryOther
	require.GreaterOrEqual(t, mannerBroker(synced).play(&manner{}, flushes, 64), flushes-5, "one flush to learn, and one in each %d", tryOther)
	require.LessOrEqual(t, mannerBroker(unsynced).play(&manner{}, flushes, 64), 5)
}

func TestFewWritesGoSingly(t *testing.T) {
	require.Zero(t, mannerBroker(synced).play(&manner{}, 2*tryOther, minWriteBatch-1))
}

// A store that moves to a slower disk, or a cluster that loses a node, is
// noticed.
func TestTheMannerFollowsTheBroker(t *testing.T) {
	m := &manner{}
	mannerBroker(unsynced).play(m, 2*tryOther, 64)
	mannerBroker(synced).play(m, tryOther, 64)
	require.GreaterOrEqual(t, mannerBroker(synced).play(m, tryOther, 64), tryOther-2)
}
