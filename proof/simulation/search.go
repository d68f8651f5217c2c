package simulation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Search says which schedules to run.
type Search struct {
	// Seed is that of the first schedule. The next ones have the following seeds.
	Seed      uint64
	Schedules int
	// For ends the search after this time; 0 = after Schedules.
	For      time.Duration
	Mutation Mutation
	// Corrections plays schedules about corrections of an order in doubt.
	Corrections bool
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
	// Reached are the faults that struck, and where, in any schedule.
	Reached Strikes
}

// Sizes of a round, in schedules. A round's results are taken in order, so the number of
// schedules that run at once does not change the result.
const (
	firstRound = 16
	largeRound = 1024
)

// Run runs the schedules until all are done, Most is reached or ctx ends.
func (s Search) Run(ctx context.Context) Summary {
	var sum Summary
	began := time.Now()
	for size := firstRound; sum.Schedules < s.Schedules || s.Schedules == 0; size = min(2*size, largeRound) {
		if ctx.Err() != nil || s.For > 0 && time.Since(began) >= s.For {
			break
		}
		if s.Schedules > 0 {
			size = min(size, s.Schedules-sum.Schedules)
		}
		round := make([]Schedule, size)
		for i := range round {
			round[i] = Schedule{Seed: s.Seed + uint64(sum.Schedules+i), Corrections: s.Corrections}
		}
		for _, r := range s.play(ctx, round) {
			if sum.add(r); s.Most > 0 && len(sum.Failed) == s.Most {
				return sum
			}
		}
		if s.Progress != nil {
			s.Progress(sum.Schedules)
		}
	}
	return sum
}

// play plays a round and returns its results in order.
func (s Search) play(ctx context.Context, round []Schedule) []Result {
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
				out[i] = play(&round[i], s.Mutation, nil, nil, nil, &cs)
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
	s.Reached.add(r.Reached)
	if len(r.Findings) > 0 && len(s.Failed) < maxFailed {
		s.Failed = append(s.Failed, r)
	}
}

func (c *Counts) add(o Counts) {
	c.Counts.Add(o.Counts)
	c.Faults += o.Faults
}
