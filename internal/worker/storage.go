package worker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/submit/gate"
)

// holdStorage is the reason under which the gate is held while the broker does
// not store results (R10).
const holdStorage = "the broker does not store results"

// storageFault holds the gate while there are orders whose writes were refused.
// They repeat them, so that the first test write that succeeds is followed by
// the others' at once. One that leaves without having written (its claim was
// lost, for instance) shows nothing, and must not open the gate for the rest.
type storageFault struct {
	gate    *gate.Gate
	log     zerolog.Logger
	mu      sync.Mutex
	waiting int
}

// refused: an order waits, whose write failed with err. Call left for each.
func (s *storageFault) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting++; s.waiting > 1 {
		return
	}
	s.log.Error().Err(err).Msg("results are refused; nothing more is posted until they are stored again")
	s.gate.Hold(holdStorage, time.Time{})
}

// left: an order waits no more. With the last one the gate opens, even if it
// stored nothing: nobody is left to test the storage, and the next refusal
// closes the gate again.
func (s *storageFault) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting > 0 {
		return
	}
	s.log.Info().Msg("no result waits to be stored any more; posting goes on")
	s.gate.Release(holdStorage)
}
