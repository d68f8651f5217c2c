package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// measures are the cases by name.
var measures = map[string]func(ctx context.Context, r *rig) ([]table, error){
	"pipeline": pipeline,
	"tls":      overTLS,
	"cluster":  cluster,
	"many":     many,
	"latency":  latency,
	"durable":  durable,
	"scale":    scaleOut,
	"long":     longQueue,
	"feeding":  feeding,
	"waiting":  waiting,
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
					name, round+1, t.label(), t.inFlight, out.Rate, out.CPU, out.Peak, out.BrokerCPU, out.SinkCPU)
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
			if t.http2 = t.tls && (c == usualStored || c == ours); t.http2 {
				t.profile = ""
				trials = append(trials, t)
			}
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
	if t.warm == 0 {
		t.warm = t.orders / 20
	}
	for _, n := range inFlight {
		t.inFlight = n
		list = append(list, t)
	}
	return list
}

// pipeline is the working-off of a full queue with an API that answers at once.
func pipeline(ctx context.Context, r *rig) ([]table, error) {
	return r.contest(ctx, "pipeline", "Pipeline: http, one server, no API latency", r.rounds, r.sizes(60_000, trial{}, 64, 256),
		usualStored, ours, leanStored, leanChecked, usual, bareNet, bareFast)
}

// overTLS is the same with an API that speaks https: HTTP/1.1 to all, and in
// trials of their own HTTP/2 to those that may speak it.
func overTLS(ctx context.Context, r *rig) ([]table, error) {
	return r.contest(ctx, "tls", "TLS: https, one server, no API latency", r.rounds, r.sizes(60_000, trial{tls: true}, 64, 256),
		usualStored, ours, leanStored, leanChecked, usual, bareNet, bareFast)
}

// cluster is the same with three servers and three replicas of each stream. The
// loops without a queue have no servers: pipeline tells what they do.
func cluster(ctx context.Context, r *rig) ([]table, error) {
	title := fmt.Sprintf("Cluster: http, %d servers, %d replicas, no API latency", clusterSize, clusterSize)
	return r.contest(ctx, "cluster", title, r.rounds, r.sizes(30_000, trial{nodes: clusterSize}, 64, 256), usualStored, ours, leanStored, leanChecked, usual)
}

// many holds thousands of orders in flight against a slow API. The rate counts
// from the first three eighths on: the gate opens by doubling with each round trip.
func many(ctx context.Context, r *rig) ([]table, error) {
	const delay = 100 * time.Millisecond
	var sizes []trial
	for _, c := range []struct{ inFlight, orders int }{{2000, 100_000}, {10_000, 200_000}} {
		n := r.some(c.orders)
		sizes = append(sizes, r.sizes(c.orders, trial{warm: n * 3 / 8, latency: delay}, min(c.inFlight, n))...)
		if len(r.inFlight) > 0 {
			break
		}
	}
	return r.contest(ctx, "many", fmt.Sprintf("Slow API: http, one server, %s latency", delay), (r.rounds+1)/2, sizes,
		usualStored, ours, leanStored, leanChecked, usual, bareNet, bareFast)
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

// scaleOut adds worker processes against an API whose latency bounds each.
func scaleOut(ctx context.Context, r *rig) ([]table, error) {
	t := table{Title: "Scale-out: 100 ms API latency, 64 in flight per worker",
		Columns: []string{"workers", "orders/s", "times one", "least and most orders of a worker", "redeliveries"}}
	one := 0.0
	for _, workers := range first(r.short, 1, 2, 4) {
		n := r.some(5000 * workers)
		outcomes, err := r.interleave(ctx, "scale", 1, []trial{{contender: ours, inFlight: 64, orders: n, warm: n / 4, workers: workers, latency: 100 * time.Millisecond}})
		if err != nil {
			return nil, err
		}
		out := outcomes[0][0]
		t.Outcomes = append(t.Outcomes, named{fmt.Sprintf("%d workers", workers), outcomes[0]})
		if out.Failed != "" {
			t.row(fmt.Sprint(workers), failure(outcomes[0]))
			continue
		}
		if workers == 1 {
			one = out.Rate
		}
		t.row(fmt.Sprint(workers), fmt.Sprintf("%.0f", out.Rate), fmt.Sprintf("%.2f", out.Rate/one),
			fmt.Sprintf("%d, %d", least(out.Shares), most(out.Shares)), fmt.Sprint(out.Again))
	}
	return []table{t}, nil
}

// longQueue compares a queue of millions with one of thousands.
func longQueue(ctx context.Context, r *rig) ([]table, error) {
	n := min(r.some(50_000), r.pending)
	few := trial{contender: ours, inFlight: 64, orders: n, warm: n / 10, pending: n + 1}
	lots := few
	lots.pending = r.pending
	outcomes, err := r.interleave(ctx, "long", 1, []trial{few, lots})
	if err != nil {
		return nil, err
	}
	t := table{Title: fmt.Sprintf("Long queues: the first %d orders of", n), Columns: []string{"pending", "orders/s", "CPU µs/order", "peak MB", "broker CPU µs/order"}}
	for i, trial := range []trial{few, lots} {
		out := outcomes[i][0]
		t.Outcomes = append(t.Outcomes, named{fmt.Sprintf("%d pending", trial.pending), outcomes[i]})
		if out.Failed != "" {
			t.row(fmt.Sprint(trial.pending), failure(outcomes[i]))
			continue
		}
		t.row(fmt.Sprint(trial.pending), fmt.Sprintf("%.0f", out.Rate), fmt.Sprintf("%.1f", out.CPU), fmt.Sprintf("%.0f", out.Peak), fmt.Sprintf("%.1f", out.BrokerCPU))
	}
	return []table{t}, nil
}
