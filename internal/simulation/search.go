package simulation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Search says which schedules to run.
type Search struct {
	// Seed is the seed of the first schedule. The others have the following seeds.
	Seed      uint64
	Schedules int
	Mutation  Mutation
	// Parallel is the number of concurrent schedules.
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
	// Failed lists the schedules with findings, in the order of their seeds.
	Failed []Result
}

// Run runs the schedules until all are done, Most is reached or ctx ends.
func (s Search) Run(ctx context.Context) Summary {
	var next, failed atomic.Int64
	var mu sync.Mutex
	var sum Summary
	var all sync.WaitGroup
	for range max(s.Parallel, 1) {
		all.Go(func() {
			var mine Summary
			for ctx.Err() == nil && (s.Most == 0 || failed.Load() < int64(s.Most)) {
				i := next.Add(1) - 1
				if i >= int64(s.Schedules) {
					break
				}
				r := Run(s.Seed+uint64(i), s.Mutation, nil)
				if len(r.Findings) > 0 {
					failed.Add(1)
				}
				mine.add(r)
				if s.Progress != nil && (i+1)%1000 == 0 {
					s.Progress(int(i + 1))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			sum.join(mine)
		})
	}
	all.Wait()
	return sum
}

func (s *Summary) add(r Result) {
	s.Schedules++
	s.Simulated += r.Simulated
	s.Counts.add(r.Counts)
	if len(r.Findings) > 0 {
		s.Failed = append(s.Failed, r)
	}
}

func (s *Summary) join(o Summary) {
	s.Schedules += o.Schedules
	s.Simulated += o.Simulated
	s.Counts.add(o.Counts)
	s.Failed = append(s.Failed, o.Failed...)
}

func (c *Counts) add(o Counts) {
	c.Counts.Add(o.Counts)
	c.Faults += o.Faults
}
