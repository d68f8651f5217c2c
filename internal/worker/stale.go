package worker

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/books"
	"orderpost/internal/queue"
)

// staleEvery is how often a worker looks for intents that a killed broker stores
// although they were acknowledged. It costs two requests.
const staleEvery = 15 * time.Second

// staleIntents has such intents removed until ctx ends. It says once which of them
// only a person can help.
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
		s.log.Debug().Err(err).Msg("not every stale intent was looked at")
	}
	s.last = found
	if found.Removed > 0 {
		s.log.Info().Int("intents", found.Removed).Msg("removed intents that had their outcome and were still stored, though acknowledged: the broker was killed in between")
	}
	stranded := strings.Join(found.Stranded, " ")
	if stranded != "" && stranded != s.told {
		s.log.Error().Strs("order_nos", found.Stranded).
			Msg("these intents have no outcome, and the broker counts them as acknowledged and delivers them to nobody: see After a broker was killed in docs/operations.md")
	}
	s.told = stranded
}
