package worker

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/settle"
)

// startTrimming removes settled intents from the queue's stream until stop is called
// (R14). stop removes what was settled last.
func (p *Pool) startTrimming() (stop func()) {
	end := inBackground(p.trimPause, p.trim)
	return func() {
		end()
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.trim(last)
	}
}

// trimPause is longer where another worker trims: what is removed singly lingers for seconds.
func (p *Pool) trimPause() time.Duration {
	if p.Trims() {
		return settle.TrimEvery
	}
	return housekeepEvery
}

func (p *Pool) trim(ctx context.Context) {
	var err error
	if p.Trims() {
		err = p.Queue.Trimmer.Trim(ctx)
	}
	if err == nil {
		err = p.Queue.Trimmer.TrimSingly(ctx)
	}
	if err != nil && ctx.Err() == nil {
		p.Log.Debug().Err(err).Msg("settled intents are not removed yet; will retry")
	}
}

// housekeepEvery is how often a worker looks whether what takes minutes to days is due.
const housekeepEvery = time.Second

// housekeep asks for overdue deliveries (R9), forgets old results (R11) and removes dead letters that no
// record names (R4), which one worker of a fleet does.
func (p *Pool) housekeep(ctx context.Context) {
	if !p.Trims() {
		return
	}
	asked, err := p.Queue.Overdue.Look(ctx)
	if asked > 0 {
		p.Log.Info().Int("orders", asked).Msg("asked the broker to deliver again what it gave out, and nobody settled or gave back, for longer than any delay lasts")
	}
	forgot, failed := p.Queue.Retention.Run(ctx)
	if forgot > 0 {
		p.Log.Info().Int("results", forgot).Msg("forgot results that are older than ORDERPOST_RESULT_RETENTION")
	}
	swept, unswept := p.sweepLetters(ctx)
	if swept > 0 {
		p.Log.Info().Int("dead_letters", swept).Msg("removed dead letters that no record names: writes that were cut off had left them")
	}
	if err = errors.Join(err, failed, unswept); err != nil && ctx.Err() == nil {
		p.Log.Debug().Err(err).Msg("overdue deliveries, old results and dead letters are not looked at yet; will retry")
	}
}

// sweepEvery is the shortest time between two looks at the dead letters.
const sweepEvery = time.Minute

// sweepLetters removes dead letters that no record names, but none while a stream lacks its end: the records that
// name them may come back with it.
func (p *Pool) sweepLetters(ctx context.Context) (removed int, err error) {
	now := time.Now()
	if !p.lettersAt.IsZero() && now.Sub(p.lettersAt) < sweepEvery {
		return 0, nil
	}
	p.lettersAt = now
	if losses, _, err := p.Queue.Extents.Losses(ctx, nil); err != nil || len(losses) > 0 {
		return 0, err
	}
	return p.Queue.Sweeper.Sweep(ctx)
}

// inBackground calls do again and again, with a pause in between, until stop is called, which waits for the call under way.
func inBackground(pause func() time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			do(ctx)
			if settle.Sleep(ctx, pause()) != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
