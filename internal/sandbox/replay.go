package sandbox

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	replayShards = 16
	// replaySpan is the time that one set of signatures covers. A shorter span forgets
	// sooner and needs more sets.
	replaySpan = 30 * time.Second
)

// replays remembers signatures while their timestamp is inside the window. The window
// check refuses older ones. replays stores eight bytes of each signature: with ten
// million stored, the probability of a false alarm is about 10^-12 for each request.
type replays struct {
	shards [replayShards]replayShard
}

type replayShard struct {
	mu   sync.Mutex
	sets map[int64]map[uint64]struct{} // by timestamp / replaySpan
}

// seen remembers the signature and reports whether it was known. The caller has
// checked the window.
func (r *replays) seen(signature []byte, timestamp, now time.Time, window time.Duration) bool {
	id := binary.LittleEndian.Uint64(signature)
	sh := &r.shards[id%replayShards]
	span := timestamp.UnixNano() / int64(replaySpan)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	set, ok := sh.sets[span]
	if !ok {
		sh.forget(now.Add(-window))
		set = make(map[uint64]struct{})
		sh.sets[span] = set
	}
	if _, seen := set[id]; seen {
		return true
	}
	set[id] = struct{}{}
	return false
}

// forget removes the sets that end before the oldest accepted timestamp.
func (sh *replayShard) forget(oldest time.Time) {
	if sh.sets == nil {
		sh.sets = make(map[int64]map[uint64]struct{})
	}
	first := oldest.UnixNano() / int64(replaySpan)
	for span := range sh.sets {
		if span < first {
			delete(sh.sets, span)
		}
	}
}
