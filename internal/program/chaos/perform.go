package chaos

import (
	"context"
	"fmt"
	"time"

	"orderpost/internal/program/books"
	"orderpost/internal/queue"
)

// summary is what a run found.
type summary struct {
	Broker      string  `json:"broker"`
	Policy      string  `json:"policy"`
	Seed        uint64  `json:"seed"`
	Orders      int     `json:"orders"`
	Seconds     float64 `json:"seconds"`
	Kills       int     `json:"kills"`
	WorkerKills int     `json:"worker_kills"`
	BrokerKills int     `json:"broker_kills"`
	Requests    int64   `json:"requests"`
	*books.Books
}

// perform enqueues, kills, waits for quiet, and balances the books.
func (r *rig) perform(ctx context.Context) (*summary, error) {
	started := time.Now()
	if err := r.enqueue(ctx); err != nil {
		return nil, err
	}
	for i := range r.o.kills {
		// The i-th kill comes at a random point of its share of the orders.
		share := float64(r.o.orders) * 0.95 / float64(r.o.kills)
		at := int64(share * (float64(i) + r.rand.Float64()))
		if err := r.untilCreated(ctx, at); err != nil {
			return nil, err
		}
		if err := r.strike(i + 1); err != nil {
			return nil, err
		}
	}
	if err := r.untilQuiet(ctx); err != nil {
		return nil, err
	}
	return r.balance(ctx, time.Since(started))
}

// enqueue publishes every order, again with the same ids where the broker did
// not confirm them.
func (r *rig) enqueue(ctx context.Context) error {
	q, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer q.Close()
	intents := make([]queue.Intent, r.o.orders)
	for i := range intents {
		no := fmt.Sprintf("C%d-%06d", r.o.seed, i)
		intents[i] = queue.Intent{OrderNo: no, ID: "chaos:" + no, Batch: "chaos",
			Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":60,"amount":"%d.00"}`, no, i)}
	}
	for _, result := range q.PublishMany(ctx, intents) {
		if result.Err != nil {
			return result.Err
		}
	}
	r.say("%d orders enqueued", r.o.orders)
	return nil
}

// untilCreated waits until the API has created n orders, or nothing is left.
func (r *rig) untilCreated(ctx context.Context, n int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.api.Ledger().OrdersCreated < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d orders created, waiting for %d", context.Cause(ctx), r.api.Ledger().OrdersCreated, n)
		case <-tick.C:
		}
	}
	return nil
}

// strike kills one process and starts it again. With the embedded broker the
// worker that runs it takes the broker along.
func (r *rig) strike(n int) error {
	p := r.victim()
	hosts := r.broker == nil && p == r.workers[0]
	r.say("kill %d: %s, after %d orders", n, p.name, r.api.Ledger().OrdersCreated)
	p.kill()
	if p == r.broker || hosts {
		r.brokerKills++
	}
	if p != r.broker {
		r.workerKills++
	}
	if err := p.start(); err != nil {
		return err
	}
	return r.reviveJoiners()
}

// reviveJoiners starts workers again that ended because no broker was there
// when they looked.
func (r *rig) reviveJoiners() error {
	for _, w := range r.workers {
		if !w.running() {
			w.kill()
			if err := w.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// untilQuiet waits until every intent is settled and acknowledged.
func (r *rig) untilQuiet(ctx context.Context) error {
	q, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer q.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := q.Count(ctx); err == nil && c.Pending == 0 {
			return nil
		}
		if err := r.reviveJoiners(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			c, _ := q.Count(context.WithoutCancel(ctx))
			return fmt.Errorf("%w: %d intents are still pending", context.Cause(ctx), c.Pending)
		case <-tick.C:
		}
	}
}

// balance compares the results with the sandbox's ledger, and the streams with
// each other.
func (r *rig) balance(ctx context.Context, took time.Duration) (*summary, error) {
	q, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	b, err := books.Balance(ctx, q, r.api, r.o.orders, nil)
	return &summary{Broker: r.o.broker, Policy: r.o.policy, Seed: r.o.seed, Orders: r.o.orders, Seconds: took.Seconds(),
		Kills: r.o.kills, WorkerKills: r.workerKills, BrokerKills: r.brokerKills,
		Requests: r.api.Ledger().Requests, Books: b}, err
}
