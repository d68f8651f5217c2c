package queue

import "time"

// way is how several writes are sent.
type way uint8

const (
	// together: as one atomic batch.
	together way = iota
	// singly: one after another, all before the first answer is waited for.
	singly
)

// A batch of fewer than minWriteBatch writes is never quicker than they are
// singly. One flush in tryOther goes the way that has been slower, to see
// whether it still is; singly only as few as tell, since on a slow disk each of
// them may cost tens of milliseconds.
const (
	minWriteBatch = 16
	tryOther      = 512
)

// manner finds out which way takes less time. It depends on the broker: a batch
// costs one fsync or one round of a cluster's consensus instead of one for each
// write, but the broker stages it in files of its own, at the cost of some tens
// of writes that are not synced. Nobody can ask a broker which of them it is, so
// that both are measured. It belongs to one goroutine.
type manner struct {
	mean    [2]time.Duration // moving mean for each write, the round trip aside; 0 = not known
	trip    time.Duration    // the same of a write that went alone
	flushes int
}

// singly says how many of n writes shall go singly; the others go together.
func (m *manner) singly(n int) int {
	if n < minWriteBatch {
		return n
	}
	m.flushes++
	try := m.flushes%tryOther == 0
	switch {
	case m.mean[together] == 0:
		return 0
	case m.mean[singly] == 0, m.mean[singly] >= m.mean[together] && try:
		return minWriteBatch
	case m.mean[singly] < m.mean[together] && !try:
		return n
	default:
		return 0
	}
}

// took notes how long n writes took that went one way.
func (m *manner) took(w way, n int, d time.Duration) {
	switch {
	case n == 1:
		follow(&m.trip, d)
	case n >= minWriteBatch: // in fewer the round trip is most of it
		follow(&m.mean[w], (d-min(m.trip, d*9/10))/time.Duration(n))
	}
}

// follow is one step of a moving mean; 0 = there was none.
func follow(mean *time.Duration, d time.Duration) {
	if *mean == 0 {
		*mean = max(d, 1)
		return
	}
	*mean = max(*mean+(d-*mean)/8, 1)
}
