package bench

import (
	"context"
	"fmt"
)

// feeding compares orders that were published to the queue with orders that came
// through the waiting room, and with orders that a bare loop moves from there: they
// show what the server needs at least. The CPU of publishing is included.
func feeding(ctx context.Context, r *rig) ([]table, error) {
	n := r.some(30_000)
	direct := trial{contender: ours, inFlight: 64, orders: n, warm: n / 20, whole: true}
	fed, hopped := direct, direct
	fed.waits, hopped.waits, hopped.hops = true, true, true
	fed.profile, r.profile = r.profile, ""
	outcomes, err := r.interleave(ctx, "feeding", r.rounds, []trial{direct, fed, hopped})
	if err != nil {
		return nil, err
	}
	brokers := func(o outcome) float64 { return o.BrokerCPU }
	t := table{Title: fmt.Sprintf("Waiting room: %d orders from publish to outcome, 64 in flight, no API latency", n),
		Columns: []string{"published to", "published/s", "orders/s", "CPU µs/order", "broker CPU µs/order", "times the queue"}}
	for i, name := range []string{"the queue", "the waiting room", "the waiting room, moved by a bare loop"} {
		of := outcomes[i]
		t.Outcomes = append(t.Outcomes, named{name, of})
		if len(measured(of)) == 0 {
			t.row(name, failure(of))
			continue
		}
		t.row(name, number("%.0f", each(of, func(o outcome) float64 { return o.Published })), number("%.0f", each(of, func(o outcome) float64 { return o.Rate })),
			number("%.1f", each(of, func(o outcome) float64 { return o.CPU })), number("%.1f", each(of, brokers)), number("%.2f", ratio(of, outcomes[0], brokers)))
	}
	return []table{t}, nil
}
