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
// whether it still is.
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
	mean    [2]time.Duration // moving mean for each write; 0 = not known
	flushes int
}

// together says whether n writes shall go as one batch.
func (m *manner) together(n int) bool {
	if n < minWriteBatch {
		return false
	}
	m.flushes++
	quicker := together
	if m.mean[together] > 0 && m.mean[singly] < m.mean[together] { // also where singly is not known yet
		quicker = singly
	}
	return (quicker == together) != (m.flushes%tryOther == 0)
}

// took notes how long a flush of n writes took.
func (m *manner) took(w way, n int, d time.Duration) {
	if n < minWriteBatch { // the round trip is most of it
		return
	}
	each := max(d/time.Duration(n), 1)
	if m.mean[w] == 0 {
		m.mean[w] = each
		return
	}
	m.mean[w] += (each - m.mean[w]) / 8
}
