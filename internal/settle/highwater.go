package settle

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
)

// seenKeys is how many keys of the fleet's bucket hold marks. Workers share
// them by the hash of their names, so that restarts leave no keys behind.
const seenKeys = 16

// seen knows how far the intents stream had been delivered when the connection
// was made.
//
// The broker counts deliveries, but it forgets the counts when it is killed:
// what was in a worker's hands then comes back as a first delivery, and would
// pass for an order that nobody has tried (R2, R3). Intents are delivered for
// the first time in the order of their sequences. So each worker keeps the
// highest sequence it was given as a mark in the fleet's bucket, confirmed
// before anything of that pull is posted; and a "first" delivery at or below a
// mark from before the pull is a redelivery whose count was lost.
type seen struct {
	q   *Protocol
	key string

	mu     sync.Mutex
	loaded bool
	epoch  uint64 // of the connection for which below holds
	below  uint64 // the highest mark of anybody when it was loaded
	own    Mark   // our key, as last read or written
	ownSeq uint64 // its sequence in the bucket's stream
}

// Mark is the highest sequence that was delivered, in a stream made at Stream
// (unix nanoseconds).
type Mark struct {
	Stream int64  `json:"stream"`
	Seq    uint64 `json:"seq"`
}

func newSeen(q *Protocol) *seen {
	h := fnv.New32a()
	_, _ = h.Write([]byte(q.cfg.Worker))
	return &seen{q: q, key: seenKey(int(h.Sum32() % seenKeys))}
}

func seenKey(i int) string { return "seen." + strconv.Itoa(i) }

// refresh reads the marks anew after a reconnect, before messages are pulled:
// a mark that another worker sets while a pull is on its way says nothing
// about that pull. It returns the highest.
func (s *seen) refresh(ctx context.Context) (below uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch := s.q.disconnects.Load()
	if s.loaded && s.epoch == epoch {
		return s.below, nil
	}
	born, err := s.q.store.Born(ctx)
	if err != nil {
		return 0, err
	}
	made := born.UnixNano()
	s.below, s.own = 0, Mark{Stream: made}
	for i := range seenKeys {
		m, seq, err := s.q.store.Mark(ctx, seenKey(i))
		if err != nil {
			return 0, err
		}
		if m.Stream == made {
			s.below = max(s.below, m.Seq)
		}
		if seenKey(i) == s.key {
			s.ownSeq, s.own.Seq = seq, 0
			if m.Stream == made {
				s.own.Seq = m.Seq
			}
		}
	}
	s.loaded, s.epoch = true, epoch
	return s.below, nil
}

// reach marks that the stream has been delivered up to seq, and returns when
// that is confirmed.
func (s *seen) reach(ctx context.Context, seq uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq > s.own.Seq {
		next := Mark{s.own.Stream, seq}
		written, err := s.q.store.PutMark(ctx, s.key, next, s.ownSeq)
		if err == nil {
			s.own, s.ownSeq = next, written
			return nil
		}
		m, at, readErr := s.q.store.Mark(ctx, s.key)
		if readErr != nil || at == s.ownSeq { // not overtaken: it failed
			return fmt.Errorf("mark of deliveries: %w", err)
		}
		s.ownSeq = at
		if m.Stream == s.own.Stream {
			s.own.Seq = max(s.own.Seq, m.Seq)
		}
	}
	return nil
}

// restore writes this worker's mark into a bucket that was made anew.
func (s *seen) restore(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.Seq == 0 {
		return nil
	}
	written, err := s.q.store.PutMark(ctx, s.key, s.own, 0)
	if err == nil {
		s.ownSeq = written
	}
	if errors.Is(err, ErrStale) { // a worker with the same key was first: reach reads it
		err = nil
	}
	return err
}
