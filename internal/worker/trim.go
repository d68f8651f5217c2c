package worker

import (
	"context"
	"time"

	"orderpost/internal/settle"
)

// startTrimming removes settled intents from the queue's stream until stop is called
// (R14). stop removes what was settled last.
func (p *Pool) startTrimming() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(settle.TrimEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.trim(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.trim(last)
	}
}

func (p *Pool) trim(ctx context.Context) {
	var err error
	if p.Trims() {
		err = p.Queue.Trimmer.Trim(ctx)
	}
	if err == nil {
		err = p.Queue.Trimmer.TrimSingly(ctx)
	}
	if err == nil && p.Trims() {
		var asked int
		if asked, err = p.Queue.Overdue.Look(ctx); asked > 0 {
			p.Log.Info().Int("orders", asked).Msg("asked the broker to deliver again what it gave out, and nobody settled or gave back, for longer than any delay lasts")
		}
	}
	if err != nil && ctx.Err() == nil {
		p.Log.Debug().Err(err).Msg("settled intents are not removed yet; will retry")
	}
}
