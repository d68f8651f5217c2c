package bench

import (
	"context"
	"fmt"
	"time"
)

// measures are the cases by name.
var measures = map[string]func(ctx context.Context, r *rig) ([]table, error){
	"pipeline": pipeline,
	"many":     many,
	"latency":  latency,
	"durable":  durable,
	"scale":    scaleOut,
	"long":     longQueue,
}

// first takes the first of a list in short mode, else all.
func first[T any](short bool, list ...T) []T {
	if short {
		return list[:1]
	}
	return list
}

// interleave runs every trial once a round, in turn, so that a neighbour's load
// hits all contenders alike.
func (r *rig) interleave(ctx context.Context, name string, n int, trials []trial) ([][]outcome, error) {
	outcomes := make([][]outcome, len(trials))
	for round := range n {
		for i, t := range trials {
			if round > 0 {
				t.profile = ""
			}
			out, err := r.try(ctx, t)
			if err != nil {
				return nil, err
			}
			r.say("%s, round %d: %s, %d in flight: %.0f orders/s, %.1f µs CPU, %.0f MB; broker %.1f µs, API %.1f µs",
				name, round+1, t.contender, t.inFlight, out.Rate, out.CPU, out.Peak, out.BrokerCPU, out.SinkCPU)
			outcomes[i] = append(outcomes[i], out)
		}
	}
	return outcomes, nil
}

// pipeline is the working-off of a full queue with an API that answers at once.
func pipeline(ctx context.Context, r *rig) ([]table, error) {
	var tables []table
	for _, inFlight := range first(r.short, 64, 256) {
		n := r.some(100_000)
		var trials []trial
		for _, name := range []string{bareNet, usual, ours, bareFast} {
			trials = append(trials, trial{contender: name, inFlight: inFlight, orders: n, warm: n / 20})
		}
		if inFlight == 64 {
			trials[2].profile = r.profile
		}
		outcomes, err := r.interleave(ctx, "pipeline", r.rounds, trials)
		if err != nil {
			return nil, err
		}
		tables = append(tables, compare(fmt.Sprintf("Pipeline: no API latency, %d in flight, %d orders", inFlight, n), trials, outcomes))
	}
	return tables, nil
}

// many holds thousands of orders in flight against a slow API. The rate counts
// from the first quarter on: the gate opens by doubling with each round trip.
func many(ctx context.Context, r *rig) ([]table, error) {
	const delay = 100 * time.Millisecond
	var tables []table
	type size struct{ inFlight, orders int }
	for _, c := range first(r.short, size{2000, 100_000}, size{10_000, 200_000}) {
		n := r.some(c.orders)
		inFlight := min(c.inFlight, n)
		var trials []trial
		for _, name := range []string{bareNet, bareFast, usual, ours} {
			trials = append(trials, trial{contender: name, inFlight: inFlight, orders: n, warm: n * 3 / 8, latency: delay})
		}
		outcomes, err := r.interleave(ctx, "many", (r.rounds+1)/2, trials)
		if err != nil {
			return nil, err
		}
		tables = append(tables, compare(fmt.Sprintf("Slow API: %s latency, %d in flight, %d orders", delay, inFlight, n), trials, outcomes))
	}
	return tables, nil
}

// latency is the time from publishing to the POST's arrival at a steady rate.
func latency(ctx context.Context, r *rig) ([]table, error) {
	const rate = 500
	n := r.some(5000)
	var trials []trial
	for _, name := range []string{usual, ours} {
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
		if workers == 1 {
			one = out.Rate
		}
		t.row(fmt.Sprint(workers), fmt.Sprintf("%.0f", out.Rate), fmt.Sprintf("%.2f", out.Rate/one),
			fmt.Sprintf("%d, %d", least(out.Shares), most(out.Shares)), fmt.Sprint(out.Again))
		t.Outcomes = append(t.Outcomes, named{fmt.Sprintf("%d workers", workers), outcomes[0]})
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
		t.row(fmt.Sprint(trial.pending), fmt.Sprintf("%.0f", out.Rate), fmt.Sprintf("%.1f", out.CPU), fmt.Sprintf("%.0f", out.Peak), fmt.Sprintf("%.1f", out.BrokerCPU))
		t.Outcomes = append(t.Outcomes, named{fmt.Sprintf("%d pending", trial.pending), outcomes[i]})
	}
	return []table{t}, nil
}
