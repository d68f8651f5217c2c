package worker

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/books"
	"orderpost/internal/queue"
)

// staleEvery is how often a worker looks for stale intents. It costs two requests.
const staleEvery = 15 * time.Second

// staleIntents removes stale intents: acknowledged ones that a killed broker still
// stores. It logs once which of them need a person.
type staleIntents struct {
	queue *queue.Queue
	log   zerolog.Logger
	last  books.StaleIntents
	told  string
}

func (s *staleIntents) run(ctx context.Context) {
	tick := time.NewTicker(staleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look(ctx)
		}
	}
}

func (s *staleIntents) look(ctx context.Context) {
	found, err := books.RemoveStale(ctx, s.queue, s.last)
	if err != nil {
		s.log.Debug().Err(err).Msg("cannot check all stale intents")
	}
	s.last = found
	if found.Removed > 0 {
		s.log.Info().Int("intents", found.Removed).Msg("removed intents that have an outcome and were acknowledged, but were still stored: the broker was killed before it deleted them")
	}
	stranded := strings.Join(found.Stranded, " ")
	if stranded != "" && stranded != s.told {
		s.log.Error().Strs("order_nos", found.Stranded).
			Msg("these intents have no outcome, and the broker counts them as acknowledged and delivers them to nobody: see After a broker was killed in docs/operations.md")
	}
	s.told = stranded
}
