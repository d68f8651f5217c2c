package worker

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

// inBackground repeats do until stop is called, which waits for the call under way.
func inBackground(every time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		repeat(ctx, every, nil, do)
	}()
	return func() {
		cancel()
		<-done
	}
}
