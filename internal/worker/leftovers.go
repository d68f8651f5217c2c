package worker

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
)

// leftoverEvery is how often a worker looks for intents that a killed broker
// left behind. It costs two requests.
const leftoverEvery = 15 * time.Second

// leftovers has such intents removed until ctx ends, and says once which of them
// nobody can help but a person.
type leftovers struct {
	queue *queue.Queue
	log   zerolog.Logger
	last  queue.Leftovers
	told  string
}

func (l *leftovers) run(ctx context.Context) {
	tick := time.NewTicker(leftoverEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.look(ctx)
		}
	}
}

func (l *leftovers) look(ctx context.Context) {
	found, err := l.queue.RemoveLeftovers(ctx, l.last)
	if err != nil {
		l.log.Debug().Err(err).Msg("leftover intents not all looked at")
	}
	l.last = found
	if found.Removed > 0 {
		l.log.Info().Int("intents", found.Removed).Msg("removed intents that had their outcome and were still stored, though acknowledged: the broker was killed in between")
	}
	stranded := strings.Join(found.Stranded, " ")
	if stranded != "" && stranded != l.told {
		l.log.Error().Strs("order_nos", found.Stranded).
			Msg("these intents have no outcome, and the broker counts them as acknowledged and delivers them to nobody: see After a broker was killed in docs/operations.md")
	}
	l.told = stranded
}
