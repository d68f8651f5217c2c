package service

import (
	"context"
	"time"
)

// repeat calls do at once, at every tick, and when something arrives on wake (nil =
// nothing ever does), until ctx ends.
func repeat(ctx context.Context, every time.Duration, wake <-chan struct{}, do func(context.Context)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}
