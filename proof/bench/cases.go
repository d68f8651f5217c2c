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
}

// first takes the first of a list in short mode, else all.
func first[T any](short bool, list ...T) []T {
	if short {
		return list[:1]
	}
	return list
}

// interleave runs every trial once a round, in turn, so that a neighbour's load
// hits all contenders alike. A trial that fails is an outcome, too; the error is
// only that the run was ended.
func (r *rig) interleave(ctx context.Context, name string, n int, trials []trial) ([][]outcome, error) {
	outcomes := make([][]outcome, len(trials))
	for round := range n {
		for i, t := range trials {
			if round > 0 {
				t.profile = ""
			}
			out, err := r.tryFor(ctx, t, trialTimeout)
			if ctx.Err() != nil {
				return nil, errors.Join(context.Cause(ctx), err)
			}
			if err != nil {
				r.failed++
				why, _, _ := strings.Cut(err.Error(), "\n")
				out = outcome{Failed: strings.TrimPrefix(why, t.contender+": ")}
				r.say("%s, round %d: failed: %v", name, round+1, err)
			} else {
				r.say("%s, round %d: %s, %d in flight: %.0f orders/s, %.1f µs CPU, %.0f MB; brokers %.1f µs, API %.1f µs",
					name, round+1, t.contender, t.inFlight, out.Rate, out.CPU, out.Peak, out.BrokerCPU, out.SinkCPU)
			}
			outcomes[i] = append(outcomes[i], out)
		}
	}
	return outcomes, nil
}

// contest has the contenders work off the same queue, for each number of
// orders in flight, and compares them.
func (r *rig) contest(ctx context.Context, name, title string, rounds int, sizes []trial, contenders ...string) ([]table, error) {
	var tables []table
	for _, size := range first(r.short, sizes...) {
		var trials []trial
		for _, c := range r.entered(contenders...) {
			t := size
			t.contender = c
			if c == ours {
				t.profile, r.profile = r.profile, "" // the run's first
			}
			trials = append(trials, t)
		}
		outcomes, err := r.interleave(ctx, name, rounds, trials)
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
	t.orders = r.some(orders)
	t.warm = t.orders / 20
	for _, n := range inFlight {
		t.inFlight = n
		list = append(list, t)
	}
	return list
}

// pipeline is the working-off of a full queue with an API that answers at once.
func pipeline(ctx context.Context, r *rig) ([]table, error) {
	return r.contest(ctx, "pipeline", "Pipeline: http, one server, no API latency", r.rounds, r.sizes(60_000, trial{}, 64, 256), usualStored, ours, leanStored)
}

// cluster is the same with three servers and three replicas of each stream.
func cluster(ctx context.Context, r *rig) ([]table, error) {
	title := fmt.Sprintf("Cluster: http, %d servers, %d replicas, no API latency", clusterSize, clusterSize)
	return r.contest(ctx, "cluster", title, r.rounds, r.sizes(30_000, trial{nodes: clusterSize}, 64, 256), usualStored, ours, leanStored)
}

// latency is the time from publishing to the POST's arrival at a steady rate.
func latency(ctx context.Context, r *rig) ([]table, error) {
	const rate = 500
	n := r.some(5000)
	var trials []trial
	for _, name := range r.entered(usualStored, ours) {
		trials = append(trials, trial{contender: name, inFlight: 64, orders: n, warm: n / 10, rate: rate})
	}
	outcomes, err := r.interleave(ctx, "latency", r.rounds, trials)
	if err != nil {
		return nil, err
	}
	return []table{compareTransit(fmt.Sprintf("Latency: publish to POST at a steady %d/s", rate), trials, outcomes)}, nil
}
