package service

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"orderpost/internal/ops"
)

const (
	// beatEvery is the longest time between two messages to systemd.
	beatEvery = 20 * time.Second
	// startExtension is what systemd grants a worker that starts and lives, from
	// each beat on: the recovery of a large store takes as long as it takes.
	startExtension = 3 * beatEvery
	// drainGrace is what a worker needs after ORDERPOST_DRAIN_TIMEOUT, to hand
	// back the rest and to stop the embedded broker.
	drainGrace = 30 * time.Second
	// aliveTimeout bounds one question to /livez.
	aliveTimeout = 3 * time.Second
	// statusBytes bounds the line of `systemctl status`.
	statusBytes = 500
)

// supervisor tells systemd how the worker is (sd_notify): READY=1 once the pool
// is at work, STATUS= for `systemctl status`, WATCHDOG=1 while /livez answers,
// STOPPING=1 when the drain begins.
type supervisor struct {
	view  *operations
	log   zerolog.Logger
	watch bool
	ready bool
	mute  bool // the last message could not be sent, and the log says so
}

// supervise starts the messages where systemd asks for them (NOTIFY_SOCKET); ctx
// is the worker's, and ends when the drain begins. Call stop when the drain is
// over.
func (o *operations) supervise(ctx context.Context, drain time.Duration) (stop func()) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return func() {}
	}
	s := &supervisor{view: o, log: o.log}
	every := beatEvery
	period, err := watchdogPeriod()
	if err != nil {
		s.log.Warn().Err(err).Msg("systemd's watchdog is not fed")
	}
	if period > 0 {
		s.watch, every = true, min(every, period/3)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, every, drain, end)
	}()
	return func() { close(end); <-ended }
}

func (s *supervisor) run(ctx context.Context, every, drain time.Duration, end <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	working, draining := s.view.working, ctx.Done()
	for {
		select {
		case <-end:
			return
		default:
		}
		s.beat(ctx)
		select {
		case <-tick.C:
		case <-working:
			working = nil
		case <-draining:
			// A longer drain than TimeoutStopSec must not be cut off: its orders
			// would come back as doubtful.
			s.send("STOPPING=1", extend(drain+drainGrace))
			draining = nil
		case <-end:
			return
		}
	}
}

// beat takes a snapshot, which passes every lock of the worker: a deadlock ends
// the beats, and systemd restarts the worker.
func (s *supervisor) beat(ctx context.Context) {
	now := s.view.snapshot()
	lines := []string{"STATUS=" + status(now)}
	switch {
	case s.ready || now.Draining:
	case now.Started:
		s.ready = true
		lines = append(lines, "READY=1")
	default:
		lines = append(lines, extend(startExtension))
	}
	if s.watch && s.alive(ctx) {
		lines = append(lines, "WATCHDOG=1")
	}
	s.send(lines...)
}

// alive says whether /livez answers. A worker that serves none is alive by
// having given its snapshot.
func (s *supervisor) alive(ctx context.Context) bool {
	if s.view.server == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aliveTimeout)
	defer cancel()
	err := s.view.server.Alive(ctx)
	if err != nil {
		s.log.Error().Err(err).Msg("/livez does not answer: systemd's watchdog is not fed, and restarts this worker unless it answers in time")
	}
	return err == nil
}

// send logs the first failure of a row of them.
func (s *supervisor) send(lines ...string) {
	err := sdNotify(lines...)
	if err != nil && !s.mute {
		s.log.Warn().Err(err).Msg("systemd cannot be told how this worker is (NOTIFY_SOCKET)")
	}
	s.mute = err != nil
}

func extend(by time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds())
}

// status is one line for people. Reasons quote what others said: a line break in
// one of them would begin another message to systemd.
func status(s ops.Snapshot) string {
	text := fmt.Sprintf("posting; %d of %d slots in use", s.InFlight, s.Slots)
	r := s.Readiness()
	switch {
	case s.Draining:
		text = fmt.Sprintf("draining; %d orders in flight", s.InFlight)
	case !r.Ready:
		text = "not ready: " + strings.Join(r.Reasons, "; ")
	case !s.Gate.Open:
		text = "not posting: " + held(s.Gate.Blocks)
	case r.Storage != "":
		text += "; " + r.Storage
	}
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	if len(text) > statusBytes {
		text = strings.ToValidUTF8(text[:statusBytes], "") + "…"
	}
	return text
}

func held(blocks []ops.Block) string {
	var out []string
	for _, b := range blocks {
		out = append(out, b.Name+": "+cmp.Or(b.Reason, b.Stage))
	}
	return strings.Join(out, "; ")
}
