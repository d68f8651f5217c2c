package queue

import (
	"math/bits"
	"slices"
	"time"
)

// Every flush with a number divisible by sampleEvery samples the slower mode, and
// before the first of those every flush whose number is a power of two: what a
// mode costs is seldom clear at once.
const (
	sampleEvery = 512
	// firstBatch is the size from which a batch is tried, and sampled.
	firstBatch = 16
	// fewSingles is how many single writes are sampled at least. More of them are as
	// long as they should take no longer than a batch: each may take tens of
	// milliseconds on a slow disk.
	fewSingles = 4
)

// flushModes measures which mode is faster with this broker: one atomic batch, or single
// writes, one after another, all sent before the first answer arrives. Single writes cost
// an fsync each, or a round of a cluster's consensus. A batch costs a few, whatever its
// size: the broker stages it in files of its own. Where nothing is synced, that costs as
// much as some tens of single writes. A client cannot ask the broker, so flushModes
// measures. One goroutine uses it.
type flushModes struct {
	roundTrip func() time.Duration // to the broker and back

	away    recent   // round trips
	each    recent   // what one of several single writes takes, without the round trip
	batches [4]batch // the last ones
	batched int      // how many there were
	flushes int
}

// batch is how long an atomic batch of n writes took.
type batch struct {
	n    int
	took time.Duration
}

// Only the linker sets it (-X), for a worker whose power is cut: "fresh" sends any two
// writes together that replace nothing, as a loaded worker does with some more of them;
// "all" those that replace something, too, see apart.
var batches string

// singles returns how many of n writes the next flush sends singly. It sends the
// others together.
func (m *flushModes) singles(n int) int {
	switch {
	case n < 2:
		return n
	case batches != "":
		return 0
	case n < firstBatch && m.batched == 0:
		return n
	}
	m.flushes++
	sample := m.flushes%sampleEvery == 0 || m.flushes < sampleEvery && bits.OnesCount(uint(m.flushes)) == 1
	switch faster := m.singly(n) < m.together(n); {
	case m.batched == 0:
		return 0
	case m.each.n == 0:
		return m.sample(n, fewSingles)
	case faster && sample && n >= firstBatch:
		return 0
	case faster:
		return n
	case sample:
		return m.sample(n, max(fewSingles, int(m.together(n)/max(m.each.least(), 1))))
	default:
		return 0
	}
}

// sample returns how many of n writes go singly if a few are sampled: all, if a batch of
// one would be left.
func (m *flushModes) sample(n, few int) int {
	m.away.add(m.roundTrip())
	if n < few+2 {
		return n
	}
	return few
}

// singly returns about how long n single writes take.
func (m *flushModes) singly(n int) time.Duration {
	return m.away.least() + time.Duration(n)*m.each.least()
}

// together returns about how long an atomic batch of n writes takes: as long as a larger one
// did, or as a smaller one, of whose time a half depends on its size.
func (m *flushModes) together(n int) (least time.Duration) {
	for i, b := range m.batches[:min(m.batched, len(m.batches))] {
		took := (b.took + b.took*time.Duration(max(n, b.n))/time.Duration(b.n)) / 2
		if i == 0 || took < least {
			least = took
		}
	}
	return least
}

// observeSingly notes that a flush of n single writes was answered after a time. The
// time of the first answer says nothing about one write: the broker answers all writes that
// it reads at once together. Values that promised much less are forgotten: their round trip
// was disturbed, and the next thousand writes would take seconds on a slow disk.
func (m *flushModes) observeSingly(n int, took time.Duration) {
	each := (took - m.away.least()) / time.Duration(n)
	if n < fewSingles || m.away.n == 0 || each <= 0 {
		return
	}
	if took > 2*m.singly(n) {
		m.each = recent{}
	}
	m.each.add(each)
}

// observeTogether notes an atomic batch of n writes.
func (m *flushModes) observeTogether(n int, took time.Duration) {
	m.batches[m.batched%len(m.batches)] = batch{n, took}
	m.batched++
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
