package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Search says which schedules to run.
type Search struct {
	// Seed decides all schedules. The fresh ones have this seed and the following ones.
	Seed      uint64
	Schedules int
	// For ends the search after this time; 0 = after Schedules.
	For      time.Duration
	Mutation Mutation
	// Corrections plays schedules about corrections of an order in doubt.
	Corrections bool
	// Guided plays variants of the schedules that reached something new, besides fresh
	// ones.
	Guided bool
	// Blind leaves out the measure of coverage. Guided is then ignored.
	Blind bool
	// Parallel is the number of concurrent schedules. It does not change the result.
	Parallel int
	// Most is the number of findings after which the search ends; 0 = no limit.
	Most int
	// Progress is called from time to time with the number of schedules done. It may
	// be nil.
	Progress func(played int)
}

// Summary is the result of a search.
type Summary struct {
	Schedules int
	Simulated time.Duration
	Counts    Counts
	// Failed lists the first schedules with findings, in their order.
	Failed []Result
	// Coverage is what was reached; nil if the search was blind. LastTenth is how much
	// of it the last tenth of the schedules added. Variants are the schedules that were
	// not fresh.
	Coverage  *Coverage
	LastTenth int
	Variants  int
}

// Sizes of a round, in schedules. What a round reaches guides the next, so that the
// result does not depend on how many schedules run at once.
const (
	firstRound = 16
	largeRound = 1024
)

// Run runs the schedules until all are done, Most is reached or ctx ends.
func (s Search) Run(ctx context.Context) Summary {
	var sum Summary
	var known *Coverage
	if !s.Blind {
		known = NewCoverage()
		sum.Coverage = known
	}
	g := &guide{rng: rand.New(rand.NewPCG(mix(s.Seed), 0x677569646564))}
	began, tenth, before := time.Now(), false, 0
	next := s.Seed
	for size := firstRound; sum.Schedules < s.Schedules || s.Schedules == 0; size = min(2*size, largeRound) {
		if ctx.Err() != nil || s.For > 0 && time.Since(began) >= s.For {
			break
		}
		if s.Schedules > 0 {
			size = min(size, s.Schedules-sum.Schedules)
		}
		if known != nil && !tenth && s.lastTenth(sum.Schedules+size, time.Since(began)) {
			tenth, before = true, known.All()
		}
		round := make([]Schedule, size)
		for i := range round {
			if s.Guided && known != nil && g.variant() {
				sum.Variants++
				round[i] = g.vary()
				continue
			}
			round[i] = Schedule{Seed: next, Corrections: s.Corrections}
			next++
		}
		for _, r := range s.play(ctx, round, known) {
			if sum.add(r); s.Most > 0 && len(sum.Failed) == s.Most {
				return sum
			}
			if known != nil && known.add(r.fresh) > 0 && s.Guided {
				g.keep(r)
			}
		}
		if s.Progress != nil {
			s.Progress(sum.Schedules)
		}
	}
	if known != nil {
		sum.LastTenth = known.All() - before
	}
	return sum
}

// lastTenth reports whether the last tenth of a search begins with this round.
func (s Search) lastTenth(after int, took time.Duration) bool {
	return s.Schedules > 0 && after > s.Schedules/10*9 || s.For > 0 && took >= s.For/10*9
}

// play plays a round and returns its results in order.
func (s Search) play(ctx context.Context, round []Schedule, known *Coverage) []Result {
	out := make([]Result, len(round))
	var next atomic.Int64
	var all sync.WaitGroup
	for range max(s.Parallel, 1) {
		all.Go(func() {
			var cs coroutines
			defer cs.end()
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(round)) {
					return
				}
				out[i] = play(&round[i], s.Mutation, nil, known, nil, nil, &cs)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		out = out[:0] // some were not played
	}
	return out
}

// maxFailed bounds the failed schedules that a summary keeps.
const maxFailed = 100

func (s *Summary) add(r Result) {
	s.Schedules++
	s.Simulated += r.Simulated
	s.Counts.add(r.Counts)
	if len(r.Findings) > 0 && len(s.Failed) < maxFailed {
		s.Failed = append(s.Failed, r)
	}
}

func (c *Counts) add(o Counts) {
	c.Counts.Add(o.Counts)
	c.Faults += o.Faults
}
