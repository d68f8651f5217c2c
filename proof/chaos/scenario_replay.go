package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/sandbox"
)

// replayAll makes the API refuse every order, repairs it, and replays all dead letters
// while it kills the replaying program and workers again and again.
func (r *rig) replayAll(ctx context.Context) (*summary, error) {
	started := time.Now()
	s := r.newSummary()
	defer r.confirming(ctx)()
	if err := r.api.Update(func(s *sandbox.Settings) { s.Faults.Refuse = 1 }); err != nil {
		return s, err
	}
	if err := r.produce(ctx, nil); err != nil {
		return s, err
	}
	if err := r.untilQuiet(ctx); err != nil {
		return s, err
	}
	letters, err := r.letters(ctx)
	if err != nil {
		return s, err
	}
	r.say("%d dead letters after %.0f s", letters, time.Since(started).Seconds())
	if letters == 0 {
		return s, errors.New("the API refused every order, and there are no dead letters")
	}
	if err := r.api.Update(func(s *sandbox.Settings) { s.Faults.Refuse = 0 }); err != nil {
		return s, err
	}
	if err := r.replayKilled(ctx, s, letters); err != nil {
		return s, err
	}
	if err := r.untilQuiet(ctx); err != nil {
		return s, err
	}
	return s, r.balance(ctx, s, started)
}

// replayEverything lists the arguments of the replay. It includes unknown orders, whose
// refusal came after an attempt that may have had an effect. The sandbox refuses
// duplicates.
var replayEverything = []string{"replay", "--all", "--resubmit-unknown", "--by", "chaos", "--note", "the API refuses duplicates"}

// replayKilled kills the replaying program, and a worker each time, at random moments.
// It lets the last run finish.
func (r *rig) replayKilled(ctx context.Context, s *summary, letters uint64) error {
	draw := rand.New(rand.NewPCG(r.o.seed, 5))
	for i := range uint64(r.o.kills) {
		left := letters * (uint64(r.o.kills) - i) / uint64(r.o.kills+1)
		s.begin("kill-replay", r.inFlight.Load())
		if err := r.replayDownTo(ctx, left); err != nil {
			return err
		}
		s.begin("kill-worker", r.inFlight.Load())
		w := r.anyWorker(draw)
		r.end(w.process, syscall.SIGKILL)
		if err := r.begin(w.process); err != nil {
			return err
		}
		r.say("replay killed at %d letters or fewer, and %s", left, w.name)
	}
	for {
		code, out, err := r.run(ctx, "deadletter", replayEverything...)
		if n, lookErr := r.letters(ctx); err == nil && lookErr == nil && n == 0 {
			return nil
		}
		if waitErr := pause(ctx, 500*time.Millisecond); waitErr != nil {
			return fmt.Errorf("%w: deadletter replay --all ends with %d (%v, want %d): %s", waitErr, code, err, cli.ExitDone, out)
		}
	}
}

// replayDownTo runs a replay and kills it once only this number of letters is left.
func (r *rig) replayDownTo(ctx context.Context, left uint64) error {
	for {
		cmd, err := r.tool(ctx, "deadletter", replayEverything...)
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			_ = cmd.Wait() // it may end by the kill or by itself
			close(ended)
		})
		done := r.lettersDownTo(ctx, left, ended)
		_ = cmd.Process.Kill()
		wait.Wait()
		if done || ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// lettersDownTo waits until only this number is left, or the replay has ended. It
// reports which.
func (r *rig) lettersDownTo(ctx context.Context, left uint64, ended <-chan struct{}) bool {
	for {
		if n, err := r.letters(ctx); err == nil && n <= left {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *rig) letters(ctx context.Context) (uint64, error) {
	s, err := r.js.Stream(ctx, "ORDERS_DEAD")
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}
