package notify

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/settle"
)

const (
	// drainTime is how long attempts that are under way may take once the sender stops. It
	// is less than what is left of the lease after a renewal.
	drainTime = 3 * time.Second
	// measureEvery is how often the backlog is measured.
	measureEvery = 2 * time.Second
)

// session is one process's time as the sender: from the position that the bucket keeps,
// until it stops or loses the lease.
type session struct {
	*Sender
	window   *window
	receiver *receiver
	asides   *asides
	turns    *turns

	openImports map[string]*openImport // by name; nil = the session did not look yet

	mu   sync.Mutex // guards told
	told allTold
}

// newSession begins at the kept position, or before it if the results are others.
func (s *Sender) newSession(ctx context.Context) (*session, error) {
	from, err := resume(ctx, s.queue, s.kept.Position)
	if err != nil {
		return nil, err
	}
	if from.Seq < s.kept.Position.Seq {
		s.log.Warn().Uint64("position", s.kept.Position.Seq).Uint64("from", from.Seq).
			Msg("the broker lost the end of the results, or has others than before: outcomes are told again from where they are new")
	}
	n := &session{Sender: s, window: newWindow(from), receiver: newReceiver(s.receives), asides: newAsides(s.queue), turns: newTurns(), told: s.kept.allTold}
	n.receiver.resume(s.kept.Pause)
	return n, nil
}

// run sends until ctx ends or the lease is lost. Then it lets attempts that are under way
// finish, and keeps the position in the lease's value, which the caller stores.
func (s *session) run(ctx context.Context) error {
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	intake, endIntake := context.WithCancelCause(ctx)
	defer endIntake(nil)
	lost := func() { endIntake(nil); endWork() }
	watchdog := time.AfterFunc(time.Until(s.lease.Until()), lost) // a renewal may hang
	defer watchdog.Stop()

	var all sync.WaitGroup
	for range hands {
		all.Go(func() { s.hand(intake, work) })
	}
	all.Go(func() { s.watchAside(intake) })
	if s.filter.wants(TypeHeld, TypeResumed) {
		all.Go(func() { s.watchFleet(intake, work) })
	}
	if s.filter.wants(TypeImport) {
		all.Go(func() { s.watchImports(intake, work) })
	}
	if s.filter.wants(TypeBlocked) {
		all.Go(func() { s.watchAlert(intake, work, TypeBlocked, s.lookBlocked) })
	}
	if s.filter.wants(TypeNeeded) {
		all.Go(func() { s.watchAlert(intake, work, TypeNeeded, s.lookNeeded) })
	}
	all.Go(func() { s.measure(intake) })
	all.Go(func() { endIntake(s.read(intake)) })
	s.renew(intake, work, watchdog)
	endIntake(nil)
	drain := time.AfterFunc(drainTime, endWork)
	defer drain.Stop()
	all.Wait()
	s.keep()
	if err := context.Cause(intake); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// renew keeps the lease, and stores the position with it, until intake ends or the lease is
// lost.
func (s *session) renew(intake, work context.Context, watchdog *time.Timer) {
	for settle.Sleep(intake, fleet.LeaseRenewal) == nil {
		s.keep()
		held, err := s.lease.Keep(work)
		if !held {
			return
		}
		if err == nil {
			watchdog.Reset(time.Until(s.lease.Until()))
		}
	}
}

// keep brings the lease's value up to date.
func (s *session) keep() {
	s.kept.Position, _ = s.window.position()
	s.kept.allTold, s.kept.Problem, s.kept.Pause = s.lastTold(), s.receiver.trouble(), s.receiver.pausedUntil()
}

// lastTold returns what the receiver was told last.
func (s *session) lastTold() allTold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// noteTold notes what the receiver is told.
func (s *session) noteTold(change func(*allTold)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.told)
}

// watch calls look until intake ends, each time after the wait that it returned. An error is logged as a
// warning once.
func (s *session) watch(intake context.Context, log zerolog.Logger, cannot string, look func() (wait time.Duration, err error)) {
	for before := ""; ; {
		wait, err := look()
		problem := ""
		if err != nil && intake.Err() == nil {
			level := zerolog.WarnLevel
			if problem = err.Error(); problem == before {
				level = zerolog.DebugLevel
			}
			log.WithLevel(level).Err(err).Msg(cannot + "; will retry")
		}
		before = problem
		if settle.Sleep(intake, wait) != nil {
			return
		}
	}
}

// measure measures the backlog until ctx ends.
func (s *session) measure(ctx context.Context) {
	for {
		if state, err := s.queue.Results().State(ctx); err == nil {
			position, _ := s.window.position()
			s.stats.backlog.Store(state.LastSeq - min(position.Seq, state.LastSeq))
		}
		if settle.Sleep(ctx, measureEvery) != nil {
			return
		}
	}
}
