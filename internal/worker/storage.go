package worker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/submit/gate"
)

// holdStorage is the reason of the hold while the broker does not store results (R10).
const holdStorage = "the broker does not store results"

// storageFault holds the gate while any order waits for its write, which the broker
// refused. Each waiting order repeats its write. An abandoned order, for example one
// whose claim was lost, proves nothing about storage and must not open the gate for
// the others.
type storageFault struct {
	gate    *gate.Gate
	log     zerolog.Logger
	mu      sync.Mutex
	waiting int
}

// refused notes an order that waits because its write failed with err. The caller
// calls left once for each.
func (s *storageFault) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting++; s.waiting > 1 {
		return
	}
	s.log.Error().Err(err).Msg("the broker refuses results; no order is posted until it stores them again")
	s.gate.Hold(holdStorage, time.Time{})
}

// left notes that an order no longer waits. The last one opens the gate even if it
// stored nothing: no order is left to test the storage, and the next refused write
// holds the gate again.
func (s *storageFault) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting > 0 {
		return
	}
	s.log.Info().Msg("no result waits to be stored any more; posting orders again")
	s.gate.Release(holdStorage)
}
