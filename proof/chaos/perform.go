package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
)

// perform produces orders at a steady rate while faults come and go, heals everything,
// waits until all orders are settled, and balances the books.
func (r *rig) perform(ctx context.Context) (*summary, error) {
	started := time.Now()
	s := r.newSummary()
	events := plan(r.o.seed, r.o.chosen, r.o.length(), r.o.gap)
	r.say("%d faults in %s, seed %d", len(events), r.o.length(), r.o.seed)

	stop, err := r.watchTimes(ctx, s)
	defer func() { stop() }()
	if err != nil {
		return s, err
	}
	enough := make(chan struct{})
	produced := make(chan error, 1)
	go func() { produced <- r.produce(ctx, enough) }()
	posted := make(chan error, 1)
	go func() { posted <- r.post(ctx, enough) }()
	corrected := make(chan error, 1)
	go func() { corrected <- r.correct(ctx, enough) }()
	commanded := make(chan error, 1)
	go func() {
		if r.o.commands {
			commanded <- r.commandAll(ctx, enough)
		}
		close(commanded)
	}()
	uploaded := make(chan error, 1)
	go func() { uploaded <- r.upload(ctx, enough) }()
	defer r.decideAll(ctx)()
	if err := r.strikeAll(ctx, events, s, started); err != nil {
		close(enough)
		return s, errors.Join(err, <-produced, <-posted, <-corrected, <-commanded, <-uploaded)
	}
	close(enough)
	r.say("%d intents confirmed, %d orders created; healing", r.intents.count(), r.api.Ledger().OrdersCreated)
	if err := r.healAll(ctx); err != nil {
		return s, err
	}
	defer r.confirming(ctx)()
	left := errors.Join(<-produced, <-posted, <-corrected, <-commanded, <-uploaded)
	if left == nil {
		left = r.untilQuiet(ctx)
	}
	if left != nil { // the books name the orders that are left
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return s, left
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
	}
	stop()
	if r.o.commands {
		r.command(ctx, always, "deadletter", "audit")
	}
	return s, errors.Join(left, r.balance(ctx, s, started))
}

// strikeAll injects the faults of the schedule. It returns when every fault is healed
// and the run's time is over.
func (r *rig) strikeAll(ctx context.Context, events []event, s *summary, started time.Time) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, e := range events {
		all.Go(func() {
			if pause(ctx, time.Until(started.Add(e.At))) != nil {
				return
			}
			if err := r.strike(ctx, e, s, started); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", e.Fault, err))
			}
		})
	}
	all.Go(func() { _ = pause(ctx, time.Until(started.Add(r.o.length()))) })
	all.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// strike injects one fault, waits for its time, and heals it.
func (r *rig) strike(ctx context.Context, e event, s *summary, started time.Time) error {
	f := r.o.byName(e.Fault)
	w := s.begin(f.name, r.inFlight.Load())
	heal, err := f.inject(ctx, r, rand.New(rand.NewPCG(e.Seed, 4)))
	r.say("%6.1fs %s for %s, %d in flight%s", time.Since(started).Seconds(), f.name, e.For.Round(time.Millisecond), w.InFlight, because(err))
	if err != nil {
		s.miss(w)
	}
	if heal != nil {
		_ = pause(ctx, e.For)
		err = heal(ctx)
	} else {
		err = nil
	}
	s.end(w)
	return err
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(": it came to nothing (%v)", err)
}

// healAll ends every fault that may still stand, and resumes the fleet as a person
// would.
func (r *rig) healAll(ctx context.Context) error {
	for _, p := range r.processes() {
		if err := r.begin(p); err != nil {
			return err
		}
	}
	usual := r.manners()
	if err := r.api.Update(func(s *sandbox.Settings) { *s = usual }); err != nil {
		return err
	}
	return errors.Join(r.insist(ctx, []int{0}, "worker", "limit", "default"), r.insist(ctx, []int{0}, "worker", "resume"))
}

// untilQuiet waits until every intent is settled, acknowledged and removed from the log. After
// an outage the worker that removes them first reads all that the log still has (R14).
func (r *rig) untilQuiet(ctx context.Context) error {
	q, err := r.open(ctx, "chaos")
	if err != nil {
		return err
	}
	defer q.Close()
	var last queue.Counts
	var log queue.Room
	for told := time.Now(); ; {
		c, err := q.Census.Count(ctx)
		room, roomErr := q.Census.Room(ctx)
		if errors.Join(err, roomErr) == nil {
			if last, log = c, room; c.Pending == 0 && c.Waiting <= r.people.leaves() && log.Msgs == 0 {
				return nil
			}
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			r.say("%d intents are pending, %d wait, the log holds %d", last.Pending, last.Waiting, log.Msgs)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %d intents are still pending, the log holds %d", err, last.Pending, log.Msgs)
		}
	}
}

// confirming acts as a person who sees the pool held for a run of refusals, until stop is
// called. The API works again, so these are replayed orders that are rightly refused. Every other
// hold must end by itself.
func (r *rig) confirming(ctx context.Context) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go r.confirmRefusals(ctx)
	return stop
}

func (r *rig) confirmRefusals(ctx context.Context) {
	q, err := r.open(ctx, "chaos")
	if err != nil {
		return // whoever counts the intents reports it
	}
	defer q.Close()
	for pause(ctx, 10*time.Second) == nil {
		present, _ := fleet.New(q).Workers(ctx)
		for _, p := range present {
			if i := slices.IndexFunc(p.Reasons, func(reason string) bool { return strings.HasPrefix(reason, "a run of refusals") }); i >= 0 {
				r.say("%s: %s", p.Worker, p.Reasons[i])
				_ = r.insist(ctx, []int{0}, "worker", "resume")
				break
			}
		}
	}
}

// balance stops the workers, so no order moves any more, and compares the books.
func (r *rig) balance(ctx context.Context, s *summary, started time.Time) error {
	keep := r.workers
	if r.nodes == nil { // the first one runs the broker
		keep = keep[1:]
	}
	for _, w := range keep {
		w.stop(syscall.SIGTERM, drainPatience)
	}
	q, err := r.open(ctx, "chaos")
	if err != nil {
		return err
	}
	defer q.Close()
	if err := r.doors.untilTold(ctx, q); err != nil {
		return err
	}
	if err := r.history.finish(ctx, r.js, r.workerLogs()); err != nil {
		return err
	}
	s.Seconds, s.Revived = time.Since(started).Seconds(), r.revived.Load()
	s.Commands, s.CommandProblems = r.runs.lines, r.runs.problems
	if r.o.bitRot {
		s.Rot = &r.rots
	}
	return s.compare(ctx, q, r)
}
