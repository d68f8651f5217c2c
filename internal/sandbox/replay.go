package sandbox

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	replayShards = 16
	// replaySpan is the time that one set of signatures covers. A shorter one
	// forgets sooner and costs more sets.
	replaySpan = 30 * time.Second
)

// replays remembers signatures for as long as their timestamp is inside the
// window, by which what is older is refused anyway. Eight bytes of a signature
// stand for it: among ten million, a false alarm has odds of one in a million
// million for each request.
type replays struct {
	shards [replayShards]replayShard
}

type replayShard struct {
	mu   sync.Mutex
	sets map[int64]map[uint64]struct{} // by timestamp / replaySpan
}

// seen tells whether the signature was seen before, and remembers it.
// Its timestamp has passed the window already.
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

// forget drops the sets that end before the oldest timestamp still accepted.
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
