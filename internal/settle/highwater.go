package settle

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"sync/atomic"
)

// highWaterKeys is how many keys of the fleet's bucket hold high-water marks.
// Workers share the keys by the hash of their names, so restarts leave no keys
// behind.
const highWaterKeys = 16

// highWater keeps the delivered high-water mark: how far the intents stream has
// been delivered.
//
// The broker counts deliveries but loses its counts when it is killed. An
// intent that a worker held then comes back as a first delivery and would pass
// for an order that nobody has tried (R2, R3). The broker delivers intents for
// the first time in the order of their sequences. So each worker writes the
// highest sequence that it was given into the fleet's bucket, and the broker
// confirms that before the worker posts anything of the pull. A "first"
// delivery at or below a mark from before the pull is a redelivery whose count
// was lost.
type highWater struct {
	ledger *Ledger
	key    string

	wanted atomic.Uint64 // the highest sequence that advance was called with over this link

	mu      sync.Mutex
	loaded  bool
	link    link          // for which highest was read
	highest uint64        // the highest mark of all workers when it was read
	waited  StreamSeq     // the last one of the marks
	own     HighWaterMark // the value of our key, as last read or written
	ownSeq  uint64        // its sequence in the bucket's stream
}

func newHighWater(ledger *Ledger) *highWater {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ledger.cfg.Worker))
	return &highWater{ledger: ledger, key: highWaterKey(int(h.Sum32() % highWaterKeys))}
}

// highWaterKey returns the name of a key. Running fleets know the keys as
// "seen", so the word stays.
func highWaterKey(i int) string { return "seen." + strconv.Itoa(i) }

// high returns the highest mark of all workers, and not less than this worker's own,
// which the broker has confirmed. It reads the others' again for each connection,
// before messages are pulled over it. A mark that another worker writes while a pull
// is on its way proves nothing about that pull.
func (s *highWater) high(ctx context.Context, over link) (highest HighWaterMark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && s.link == over {
		return HighWaterMark{s.own.Stream, max(s.highest, s.own.Seq), s.waited}, nil
	}
	stream, _, err := s.ledger.store.Stream(ctx)
	if err != nil {
		return highest, err
	}
	s.highest, s.waited, s.own = 0, StreamSeq{}, HighWaterMark{Stream: stream}
	s.wanted.Store(0) // it may be of another stream
	for i := range highWaterKeys {
		m, seq, err := s.ledger.store.HighWaterMark(ctx, highWaterKey(i))
		if err != nil {
			return highest, err
		}
		if m.Stream != stream {
			m = HighWaterMark{Stream: stream}
		}
		s.highest = max(s.highest, m.Seq)
		if m.Waited.Seq > 0 && !s.waited.Covers(m.Waited) {
			s.waited = m.Waited
		}
		if highWaterKey(i) == s.key {
			s.ownSeq, s.own = seq, m
		}
	}
	s.loaded, s.link = true, over
	return HighWaterMark{stream, s.highest, s.waited}, nil
}

// reread makes the next pull read the marks again.
func (s *highWater) reread() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = false
}

// advance records that the stream has been delivered up to seq, and returns
// once the broker has confirmed it. Pulls that arrive during a write share the next one.
func (s *highWater) advance(ctx context.Context, seq uint64) error {
	s.want(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq > s.own.Seq {
		next := s.own
		next.Seq = max(seq, s.wanted.Load())
		written, err := s.ledger.store.PutHighWaterMark(ctx, s.key, next, s.ownSeq)
		if err == nil {
			s.own, s.ownSeq = next, written
			return nil
		}
		m, at, readErr := s.ledger.store.HighWaterMark(ctx, s.key)
		if readErr != nil || at == s.ownSeq { // no other write came between: ours failed
			return fmt.Errorf("delivered high-water mark not written: %w", err)
		}
		s.ownSeq = at
		if m.Stream == s.own.Stream {
			s.own.Seq = max(s.own.Seq, m.Seq)
		}
	}
	return nil
}

// want makes a write that begins from now on record seq, too.
func (s *highWater) want(seq uint64) {
	for before := s.wanted.Load(); seq > before; before = s.wanted.Load() {
		if s.wanted.CompareAndSwap(before, seq) {
			return
		}
	}
}

// restore writes this worker's mark into a bucket that was created again.
func (s *highWater) restore(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.Seq == 0 {
		return nil
	}
	s.own.Waited = s.waited
	written, err := s.ledger.store.PutHighWaterMark(ctx, s.key, s.own, 0)
	if err == nil {
		s.ownSeq = written
	}
	if errors.Is(err, ErrStale) { // a worker with the same key was first; advance reads its mark
		err = nil
	}
	return err
}

// MarkRestored marks all that the streams hold as delivered, up to m. They were restored from a backup, and no record
// tells what workers posted after it was made (R2).
func (lg *Ledger) MarkRestored(ctx context.Context, m HighWaterMark) error {
	key := highWaterKey(0)
	_, at, err := lg.store.HighWaterMark(ctx, key)
	if err == nil {
		_, err = lg.store.PutHighWaterMark(ctx, key, m, at)
	}
	return err
}
