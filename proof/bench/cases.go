package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// measures are the cases by name.
var measures = map[string]func(ctx context.Context, r *rig) ([]table, error){
	"pipeline": pipeline,
	"cluster":  cluster,
	"latency":  latency,
	"durable":  durable,
	"scale":    scale,
	"workers":  workersCase,
}

// first takes the first of a list in short mode, else all.
func first[T any](short bool, list ...T) []T {
	if short {
		return list[:1]
	}
	return list
}

// attempt is what a round does once for a row of a table.
type attempt struct {
	name string
	run  func(ctx context.Context, round int) (outcome, error)
}

// interleave makes every attempt once a round, in turn, so that a neighbour's load
// hits all contenders alike. An attempt that fails is an outcome, too; the error is
// only that the run was ended.
func (r *rig) interleave(ctx context.Context, name string, attempts []attempt) ([][]outcome, error) {
	outcomes := make([][]outcome, len(attempts))
	for round := range r.rounds {
		for i, a := range attempts {
			limited, cancel := context.WithTimeoutCause(ctx, trialTimeout, fmt.Errorf("the trial is not done within %s", trialTimeout))
			out, err := a.run(limited, round)
			cancel()
			if ctx.Err() != nil {
				return nil, errors.Join(context.Cause(ctx), err)
			}
			if err != nil {
				why, _, _ := strings.Cut(err.Error(), "\n")
				out = outcome{Failed: why}
				if !errors.Is(err, errLeftOut) {
					out.Failed = "failed: " + why
					r.failed++
				}
				r.say("%s, round %d: %s: %s%s", name, round+1, a.name, out.Failed, strings.TrimPrefix(err.Error(), why))
			} else {
				r.say("%s, round %d: %s: %.0f orders/s, %.0f µs CPU, %s fsyncs/order", name, round+1, a.name, out.Rate, out.sum(), number("%.3f", out.fsyncs()))
			}
			outcomes[i] = append(outcomes[i], out)
		}
	}
	return outcomes, nil
}

// errLeftOut says that this machine lacks what an attempt needs. That is no failure.
var errLeftOut = errors.New("left out")

// interleaveTrials runs trials. The first round may take a profile.
func (r *rig) interleaveTrials(ctx context.Context, name string, trials []trial) ([][]outcome, error) {
	var attempts []attempt
	for _, t := range trials {
		attempts = append(attempts, attempt{fmt.Sprintf("%s, %d in flight", t.contender, t.inFlight), func(ctx context.Context, round int) (outcome, error) {
			if round > 0 {
				t.profile = ""
			}
			return r.try(ctx, t)
		}})
	}
	return r.interleave(ctx, name, attempts)
}

// contest has the contenders work off the same queue, for each number of
// orders in flight, and compares them.
func (r *rig) contest(ctx context.Context, name, title string, sizes []trial) ([]table, error) {
	var tables []table
	for _, size := range first(r.short, sizes...) {
		var trials []trial
		for _, c := range r.entered(usual, ours) {
			t := size
			t.contender = c
			if c == ours {
				t.profile, r.profile = r.profile, "" // the run's first
			}
			trials = append(trials, t)
		}
		outcomes, err := r.interleaveTrials(ctx, name, trials)
		if err != nil {
			return tables, err
		}
		tables = append(tables, compare(fmt.Sprintf("%s, %d in flight, %d orders", title, size.inFlight, size.orders), trials, outcomes))
	}
	return tables, nil
}

// sizes are a trial for each number of orders in flight, or for each that was
// asked for.
func (r *rig) sizes(orders int, t trial, inFlight ...int) (list []trial) {
	if len(r.inFlight) > 0 {
		inFlight = r.inFlight
	}
	t.orders = r.ordersOf(orders)
	t.warm = t.orders / 20
	for _, n := range inFlight {
		t.inFlight = n
		list = append(list, t)
	}
	return list
}

// pipeline is the working-off of a full queue with an API that answers at once.
func pipeline(ctx context.Context, r *rig) ([]table, error) {
	return r.contest(ctx, "pipeline", "Pipeline: one server, store in memory", r.sizes(60_000, trial{}, 64, 256))
}

// cluster is the same with three servers and three replicas of each stream.
func cluster(ctx context.Context, r *rig) ([]table, error) {
	title := fmt.Sprintf("Cluster: %d servers, %d replicas, stores in memory", clusterSize, clusterSize)
	return r.contest(ctx, "cluster", title, r.sizes(30_000, trial{nodes: clusterSize}, 64, 256))
}

// latency is the time from publishing to the POST's arrival at a steady rate.
func latency(ctx context.Context, r *rig) ([]table, error) {
	const rate = 500
	n := r.ordersOf(5000)
	var trials []trial
	for _, name := range r.entered(usual, ours) {
		t := trial{contender: name, inFlight: 64, orders: n, warm: n / 10, rate: rate}
		if name == ours {
			t.profile = r.profile
		}
		trials = append(trials, t)
	}
	outcomes, err := r.interleaveTrials(ctx, "latency", trials)
	if err != nil {
		return nil, err
	}
	return []table{compareTransit(fmt.Sprintf("Latency: publish to POST at a steady %d/s", rate), trials, outcomes)}, nil
}
