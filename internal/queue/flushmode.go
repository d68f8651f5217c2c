package queue

import "time"

// flushMode is how a flush sends its writes.
type flushMode uint8

const (
	// together: as one atomic batch.
	together flushMode = iota
	// singly: one after another, all before the first answer arrives.
	singly
)

// A batch of fewer than minWriteBatch writes is never faster than single writes.
// Every flush with a number divisible by sampleEvery samples the slower mode. It
// samples single writes with the smallest useful number, because each of them may
// take tens of milliseconds on a slow disk.
const (
	minWriteBatch = 16
	sampleEvery   = 512
)

// flushModes measures which mode is faster with this broker. A batch costs one
// fsync, or one round of a cluster's consensus, where single writes cost one each.
// But the broker stages a batch in files of its own, which costs as much as some
// tens of writes that are not synced. A client cannot ask the broker which of the
// two dominates, so flushModes measures both. One goroutine uses it.
type flushModes struct {
	mean    [2]time.Duration // moving mean of the time for each write, less the round trip; 0 = unknown
	trip    time.Duration    // moving mean of the time of a write that was flushed alone
	flushes int
}

// singles returns how many of n writes the next flush sends singly. It sends the
// others together.
func (m *flushModes) singles(n int) int {
	if n < minWriteBatch {
		return n
	}
	m.flushes++
	sample := m.flushes%sampleEvery == 0
	switch {
	case m.mean[together] == 0:
		return 0
	case m.mean[singly] == 0, m.mean[singly] >= m.mean[together] && sample:
		return minWriteBatch
	case m.mean[singly] < m.mean[together] && !sample:
		return n
	default:
		return 0
	}
}

// observe notes that n writes in one mode took d.
func (m *flushModes) observe(mode flushMode, n int, d time.Duration) {
	switch {
	case n == 1:
		updateMean(&m.trip, d)
	case n >= minWriteBatch: // the round trip dominates the time of fewer writes
		updateMean(&m.mean[mode], (d-min(m.trip, d*9/10))/time.Duration(n))
	}
}

// updateMean adds a value to a moving mean; 0 = the mean has no value yet.
func updateMean(mean *time.Duration, d time.Duration) {
	if *mean == 0 {
		*mean = max(d, 1)
		return
	}
	*mean = max(*mean+(d-*mean)/8, 1)
}
