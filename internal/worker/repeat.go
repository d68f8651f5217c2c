package worker

import (
	"context"
	"time"
)

// repeat calls do at once and then at every tick, until ctx ends.
func repeat(ctx context.Context, every time.Duration, do func(context.Context)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
