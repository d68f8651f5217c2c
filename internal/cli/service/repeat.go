package service

import (
	"context"
	"time"
)

// repeat calls do at once, after each pause, and when something arrives on wake (nil =
// nothing ever does), until ctx ends.
func repeat(ctx context.Context, pause func() time.Duration, wake <-chan struct{}, do func(context.Context)) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		do(ctx)
		tick.Reset(pause())
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}
