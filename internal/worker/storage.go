package worker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/submit"
)

// holdStorage is the reason under which the gate is held while the broker does
// not store results (R10).
const holdStorage = "the broker does not store results"

// storageFault holds the gate from the first refused write until a write
// succeeds again.
type storageFault struct {
	gate *submit.Gate
	log  zerolog.Logger
	mu   sync.Mutex
	down bool
}

func (s *storageFault) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return
	}
	s.down = true
	s.log.Error().Err(err).Msg("results are refused; nothing more is posted until they are stored again")
	s.gate.Hold(holdStorage, time.Time{})
}

func (s *storageFault) healed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		return
	}
	s.down = false
	s.log.Info().Msg("results are stored again")
	s.gate.Release(holdStorage)
}
