package powercut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	gosync "sync"
	"sync/atomic"
)

// explorer tries the states of one trace under one model.
type explorer struct {
	o     *options
	t     *trace
	rec   *recorder
	model model
	out   io.Writer
	res   *result
	// certain are the moments at which the disk is tried with nothing but what is certain.
	certain []int

	mu      gosync.Mutex // guards what follows
	row     *row
	drawn   int // of the row's states
	seen    map[[2]uint64]bool
	minimal map[string]bool
	err     error
}

// explore tries n different states that are drawn. A broker is started first on what is
// certain at each of the trace's moments.
func (e *explorer) explore(ctx context.Context, start string, n int) error {
	if n == 0 {
		return nil
	}
	e.drawn, e.certain = 0, nil
	if start == "broker" {
		e.certain = e.t.moments()
	}
	e.row = &row{Model: e.model, Policy: e.rec.policy, Start: start, Operations: len(e.t.ops), Confirmations: e.t.confirmations()}
	e.seen, e.minimal = make(map[[2]uint64]bool), make(map[string]bool)
	dir, err := os.MkdirTemp(fastFolder(), "orderpost-state-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var next atomic.Int64
	var all gosync.WaitGroup
	for lane := range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if e.o.only >= 0 {
					i += e.o.only
				}
				if e.done(n) || ctx.Err() != nil || e.o.only < 0 && i >= len(e.certain)+4*n || e.o.only >= 0 && i > e.o.only {
					return
				}
				if err := e.one(ctx, i, filepath.Join(dir, fmt.Sprint(lane))); err != nil {
					e.mu.Lock()
					e.err = errors.Join(e.err, fmt.Errorf("state %d: %w", i, err))
					e.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	e.res.Rows = append(e.res.Rows, e.row)
	_, _ = fmt.Fprintf(e.out, "%s %s, %s: %d states, %d recovered, %d lost\n", e.model, e.rec.policy, start, e.row.States, e.row.Recovered, e.row.Lost)
	return errors.Join(e.err, context.Cause(ctx))
}

func (e *explorer) done(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drawn >= n || e.err != nil
}

// state returns the state with a number: the certain ones come first.
func (e *explorer) state(i int, draw *rand.Rand) *state {
	if i < len(e.certain) {
		return e.t.bare(e.model, e.certain[i])
	}
	return e.t.drawState(e.model, e.t.drawCut(draw), draw)
}

// one tries the state with a number, unless it was tried under another one.
func (e *explorer) one(ctx context.Context, i int, dir string) error {
	draw := rand.New(rand.NewPCG(e.o.seed, uint64(i)))
	s := e.state(i, draw)
	key := [2]uint64{e.t.build(s).sum(), uint64(e.t.eventsBefore(s.cut))}
	luck := draw.Uint64()
	e.mu.Lock()
	known := e.seen[key]
	e.seen[key] = true
	if !known {
		e.row.States++
		if i >= len(e.certain) {
			e.drawn++
		}
	}
	e.mu.Unlock()
	if known {
		return nil
	}
	try := func(s *state) error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if e.row.Start == "broker" {
			return e.t.judge(ctx, s, dir, e.rec.without)
		}
		arrived := rand.New(rand.NewPCG(luck, 0))
		return e.t.resume(ctx, s, dir, e.rec, func() bool { return arrived.IntN(2) == 0 })
	}
	err := try(s)
	var lost *loss
	if err != nil && !errors.As(err, &lost) {
		return err
	}
	e.mu.Lock()
	if lost == nil {
		e.row.Recovered++
		e.mu.Unlock()
		return nil
	}
	e.row.Lost++
	if e.row.Reasons == nil {
		e.row.Reasons = make(map[string]int)
	}
	e.row.Reasons[lost.reason]++
	first := !e.minimal[lost.reason]
	e.minimal[lost.reason] = true
	e.mu.Unlock()
	if first {
		small, l := s, lost
		if e.row.Start == "broker" { // a worker takes too long to start it a hundred times
			small, l = e.t.shrink(s, lost, try)
		}
		e.mu.Lock()
		e.res.Minimal = append(e.res.Minimal, e.describe(i, small, l))
		e.mu.Unlock()
	}
	return nil
}

// describe explains a loss by its minimal trace.
func (e *explorer) describe(i int, s *state, l *loss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, state %d: %s\n  the power is cut at line %d of the trace, and of what was not synced is missing:\n", e.model, e.rec.policy, i, l, s.cut)
	shown := 0
	for at, o := range s.open {
		if s.fates[at].kept {
			continue
		}
		if shown++; shown > 12 {
			continue
		}
		fmt.Fprintf(&b, "    line %d: %s (%s)\n", e.t.ops[o].enter, e.t.ops[o].text, s.fates[at])
	}
	if shown > 12 {
		fmt.Fprintf(&b, "    and %d more\n", shown-12)
	}
	if shown == 0 {
		fmt.Fprintln(&b, "    nothing: a crash of the process does the same")
	}
	return b.String()
}

// fastFolder is where states are written: in memory, if there is such a place.
func fastFolder() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func (t *trace) confirmations() (n int) {
	for _, e := range t.events {
		if !e.removed {
			n++
		}
	}
	return n
}

// eventsBefore returns how much was promised before a line.
func (t *trace) eventsBefore(cut int) (n int) {
	for _, e := range t.events {
		if e.line <= cut {
			n++
		}
	}
	return n
}
