package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/program/bench/contender"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// waiting measures how long an order that comes straight into the queue waits beside
// bulk orders, and how imports take turns.
func waiting(ctx context.Context, r *rig) ([]table, error) {
	var tables []table
	for _, part := range []func(context.Context, *rig) (table, error){beside, turns} {
		t, err := part(ctx, r)
		if err != nil {
			return tables, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// limited is a stage whose worker is bound by a rate limit.
func (r *rig) limited(ctx context.Context, perSecond int, publish func(*stage) error) (s *stage, err error) {
	s = &stage{rig: r, trial: trial{contender: ours, inFlight: 64, waits: true}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w%s", err, s.lastWords())
			s.end()
		}
	}()
	if s.api, err = r.startAPI(ctx, contender.SinkOptions{}); err != nil {
		return s, err
	}
	if err = s.prepareQueue(ctx); err != nil {
		return s, err
	}
	if err = publish(s); err != nil {
		return s, err
	}
	p, err := start(s.dir, "worker", s.worker, s.workerEnv(0, "ORDERPOST_NATS_URL="+s.broker.url, fmt.Sprintf("ORDERPOST_RATE_LIMIT=%d", perSecond)))
	if err == nil {
		s.workers = append(s.workers, p)
	}
	return s, err
}

// beside publishes orders straight to the queue while bulk orders wait and the rate
// limit binds.
func beside(ctx context.Context, r *rig) (table, error) {
	const limit, every = 100, 200 * time.Millisecond
	bulk, direct := r.some(1_000_000), 300
	if r.short {
		direct = 10
	}
	t := table{Title: fmt.Sprintf("Waiting room: %d orders straight to the queue, beside %d that wait, %d requests/s", direct, bulk, limit),
		Columns: []string{"from publish to POST", "ms"}}
	s, err := r.limited(ctx, limit, func(s *stage) error { return fillWaiting(ctx, s.queue, 0, bulk, "bulk") })
	if err != nil {
		return t, err
	}
	defer s.end()
	if err := s.atLeast(ctx, 3*limit); err != nil { // the feeder knows the fleet's pace
		return t, err
	}
	sent := make([]time.Time, direct)
	for i := range sent {
		sent[i] = time.Now()
		if _, err := s.queue.Publish(ctx, intent(bulk+i, sent[i])); err != nil {
			return t, err
		}
		time.Sleep(every)
	}
	var took []float64
	for i, at := range sent {
		rec, err := s.outcome(ctx, contender.OrderNo(bulk+i))
		if err != nil {
			return t, err
		}
		took = append(took, float64(rec.FirstAttemptAt.Sub(at))/1e6)
	}
	slices.Sort(took)
	for _, p := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"most", 1}} {
		t.row(p.name, fmt.Sprintf("%.0f", took[min(len(took)-1, int(p.at*float64(len(took))))]))
	}
	return t, nil
}

// turns has two large imports and a small one take turns.
func turns(ctx context.Context, r *rig) (table, error) {
	const limit = 500
	large := max(500, r.some(10_000))
	imports := []struct {
		name string
		n    int
	}{{"large, first", large}, {"large, second", large}, {"small", large / 10}}
	t := table{Title: fmt.Sprintf("Waiting room: imports take turns, %d requests/s", limit), Columns: []string{"import", "orders", "done after s"}}
	var began time.Time
	total := 0
	s, err := r.limited(ctx, limit, func(s *stage) error {
		for _, imp := range imports {
			if err := fillWaiting(ctx, s.queue, total, total+imp.n, imp.name); err != nil {
				return err
			}
			total += imp.n
		}
		began = time.Now()
		return nil
	})
	if err != nil {
		return t, err
	}
	defer s.end()
	s.orders = total
	if _, err := s.untilDone(ctx); err != nil {
		return t, err
	}
	last := make(map[string]time.Time)
	if err := books.EachRecord(ctx, s.queue, func(rec *order.Record) error {
		if rec.SettledAt.After(last[rec.Batch]) {
			last[rec.Batch] = rec.SettledAt
		}
		return nil
	}); err != nil {
		return t, err
	}
	for _, imp := range imports {
		t.row(imp.name, fmt.Sprint(imp.n), fmt.Sprintf("%.1f", last[imp.name].Sub(began).Seconds()))
	}
	return t, nil
}

// fillWaiting puts orders of one import into the waiting room.
func fillWaiting(ctx context.Context, q *queue.Queue, from, to int, batch string) error {
	return fillWith(ctx, q, from, to, func(in *settle.Intent) { in.Lane, in.Batch = order.BulkLane, batch })
}

// makeWaitingRoom makes the waiting room, as a worker does.
func (s *stage) makeWaitingRoom(ctx context.Context) error {
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Name, cfg.Replicas, cfg.Worker = s.broker.url, "bench-room", s.broker.replicas, true
	cfg.Present = fleet.Present
	q, err := queue.Open(ctx, cfg, zerolog.Nop())
	if err != nil {
		return err
	}
	defer q.Close()
	return q.OpenWaiting(ctx)
}

// atLeast waits until the API has seen so many orders.
func (s *stage) atLeast(ctx context.Context, n int64) error {
	return s.poll(ctx, func() (bool, error) {
		seen, err := s.api.seen(ctx, false)
		return err == nil && seen.Orders >= n, err
	})
}

// outcome waits for the outcome of an order.
func (s *stage) outcome(ctx context.Context, no string) (rec *order.Record, err error) {
	err = s.poll(ctx, func() (bool, error) {
		entry, err := s.queue.Lookup(ctx, no)
		rec = entry.Record
		return rec.Outcome() != order.OutcomeNone, err
	})
	return rec, err
}

func (s *stage) poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.workers[0].done:
			return s.endedEarly()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx))
		}
	}
}
