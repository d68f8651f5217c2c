package queue

import (
	"math/bits"
	"slices"
	"time"
)

// flushMode is how a flush sends its writes.
type flushMode uint8

const (
	// together: as one atomic batch.
	together flushMode = iota
	// singly: one after another, all before the first answer arrives.
	singly
)

// A batch of fewer than minWriteBatch writes is never faster than single writes.
// Every flush with a number divisible by sampleEvery samples the slower mode, and
// before the first of those every flush whose number is a power of two: what a
// mode costs is seldom clear at once. It samples single writes with the smallest
// useful number, because each of them may take tens of milliseconds on a slow disk.
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
	cost    [2]recent // of one further write
	alone   recent    // the time of a write that went alone, the way to the broker and back included
	flushes int
}

// Only the linker sets it (-X), for a worker whose power is cut: "fresh" sends any two
// writes together that replace nothing, as a loaded worker does with minWriteBatch of them;
// "all" those that replace something, too, see apart.
var batches string

// singles returns how many of n writes the next flush sends singly. It sends the
// others together.
func (m *flushModes) singles(n int) int {
	switch {
	case batches != "" && n > 1:
		return 0
	case n < minWriteBatch:
		return n
	}
	m.flushes++
	sample := m.flushes%sampleEvery == 0 || m.flushes < sampleEvery && bits.OnesCount(uint(m.flushes)) == 1
	switch {
	case m.cost[together].n == 0:
		return 0
	case m.cost[singly].n == 0, m.cost[singly].least() >= m.cost[together].least() && sample:
		return minWriteBatch
	case m.cost[singly].least() < m.cost[together].least() && !sample:
		return n
	default:
		return 0
	}
}

// observeSingly notes that a flush of n single writes was answered after a time. The
// time of the first answer says nothing about one write: the broker answers all writes that
// it reads at once together.
func (m *flushModes) observeSingly(n int, took time.Duration) {
	if n == 1 {
		m.alone.add(took)
	}
	m.observe(singly, n, took)
}

// observeTogether notes an atomic batch of n writes.
func (m *flushModes) observeTogether(n int, took time.Duration) { m.observe(together, n, took) }

func (m *flushModes) observe(mode flushMode, n int, took time.Duration) {
	if n >= minWriteBatch { // the way there and back dominates fewer
		m.cost[mode].add((took - min(m.alone.least(), took*9/10)) / time.Duration(n-1))
	}
}

// recent holds the last values. The least of them is what something takes when
// nothing else disturbs it, such as the start of a program.
type recent struct {
	values [4]time.Duration
	n      int
}

func (r *recent) add(d time.Duration) {
	r.values[r.n%len(r.values)] = d
	r.n++
}

// least returns 0 if there are no values.
func (r *recent) least() time.Duration {
	if r.n == 0 {
		return 0
	}
	return slices.Min(r.values[:min(r.n, len(r.values))])
}
