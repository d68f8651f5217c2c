package main

import (
	"bufio"
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// result is printed as JSON when every outcome is stored.
type result struct {
	BeganNS    int64 `json:"began_ns"`     // when the file was opened
	EndedNS    int64 `json:"ended_ns"`     // when the last outcome was seen to be stored
	StartCPUNS int64 `json:"start_cpu_ns"` // what this process used before it began
	Stored     int   `json:"stored"`       // outcomes
}

// system is a job queue that works: how orders get into it, and how many outcomes it has stored.
type system struct {
	insert func(ctx context.Context, orders []string) error
	stored func(ctx context.Context) (int, error)
	worked *atomic.Int64 // orders that were posted
}

// insertAtOnce is how many orders one call of insert gets.
const insertAtOnce = 1000

// measure puts the file's orders into a system, and returns when every outcome is stored.
func (s system) measure(ctx context.Context, file string) (r result, err error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return r, err
	}
	r.BeganNS, r.StartCPUNS = time.Now().UnixNano(), used.Utime.Nano()+used.Stime.Nano()
	n, err := s.read(ctx, file)
	if err != nil {
		return r, err
	}
	for r.Stored < n {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if s.worked.Load() < int64(n) {
			continue // a look at the database would take its time
		}
		if r.Stored, err = s.stored(ctx); err != nil {
			return r, err
		}
	}
	r.EndedNS = time.Now().UnixNano()
	return r, nil
}

// read inserts an order for each line of the file.
func (s system) read(ctx context.Context, path string) (n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for more := true; more; {
		var orders []string
		for len(orders) < insertAtOnce {
			if more = lines.Scan(); !more {
				break
			}
			orders = append(orders, lines.Text())
		}
		if len(orders) == 0 {
			break
		}
		if err := s.insert(ctx, orders); err != nil {
			return n, err
		}
		n += len(orders)
	}
	return n, lines.Err()
}
