package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"orderpost/internal/fleet"
	"orderpost/proof/bench/contender"
)

const (
	// workersDelay is how long the API of the workers case takes.
	workersDelay = 200 * time.Millisecond
	// workersSlots is how many orders all workers have in hand together.
	workersSlots = 600
	// workersLimit is the shared limit of the workers case, in requests a second.
	workersLimit = 100
)

// manyWorkers is what the workers case measured beside the rate and the CPU under load.
type manyWorkers struct {
	// IdleCPU is of each worker, and IdleBrokerCPU the server's, in milliseconds a second.
	IdleCPU       float64 `json:"idle_cpu_ms_per_s"`
	IdleBrokerCPU float64 `json:"idle_broker_cpu_ms_per_s"`
	// IdleIn and IdleOut are the messages a second that the server had from each worker and sent to it.
	IdleIn  float64 `json:"idle_messages_in_per_s"`
	IdleOut float64 `json:"idle_messages_out_per_s"`
	// In and Out are the messages an order.
	In  float64 `json:"messages_in_per_order"`
	Out float64 `json:"messages_out_per_order"`
	// Limit is the part of the shared limit that was used until the last order was posted.
	Limit float64 `json:"limit_used"`
	// Joined is the time from a worker's first sign of life until it may send, and Lost the time
	// from the end of a killed worker until the others divide the limit without it, in seconds.
	Joined float64 `json:"joined_s"`
	Lost   float64 `json:"lost_s"`
}

// workersCase compares many workers with one that has as many slots as all of them.
func workersCase(ctx context.Context, r *rig) ([]table, error) {
	counts, orders, limited, idle := []int{60, 1}, r.ordersOf(30_000), 15*workersLimit, 20*time.Second
	if r.short {
		counts, limited, idle = []int{3, 1}, workersLimit, time.Second
	}
	var attempts []attempt
	profile := r.profile
	r.profile = ""
	for _, n := range counts {
		attempts = append(attempts, attempt{workersOf(n), func(ctx context.Context, round int) (outcome, error) {
			t := trial{contender: ours, inFlight: workersSlots / n, orders: orders}
			if round == 0 && n > 1 {
				t.profile = profile
			}
			return r.tryWorkers(ctx, t, n, limited, idle)
		}})
	}
	outcomes, err := r.interleave(ctx, "workers", attempts)
	if err != nil {
		return nil, err
	}
	return []table{compareWorkers(attempts, outcomes, orders, limited)}, nil
}

func workersOf(n int) string { return fmt.Sprintf("%d × %d slots", n, workersSlots/n) }

func compareWorkers(attempts []attempt, outcomes [][]outcome, orders, limited int) table {
	t := table{Title: fmt.Sprintf("Workers: one server, store in memory, an API that takes %s, %d orders, and %d at a limit of %d/s", workersDelay, orders, limited, workersLimit),
		Columns: []string{"workers", "idle CPU ms/s each", "server", "idle messages/s each, in", "out", "orders/s", "workers' CPU µs/order", "server", "sum", "of the last", "messages/order, in", "out", "limit used", "join s", "loss s", "peak MB"}}
	last := outcomes[len(outcomes)-1]
	for i, a := range attempts {
		of := outcomes[i]
		t.Outcomes = append(t.Outcomes, named{a.name, of})
		if len(measured(of)) == 0 {
			t.row(a.name, failure(of))
			continue
		}
		cell := func(format string, value func(outcome) float64) string { return number(format, each(of, value)) }
		many := func(format string, value func(*manyWorkers) float64) string {
			return cell(format, func(o outcome) float64 { return value(o.Workers) })
		}
		t.row(a.name+remark(of), many("%.1f", func(w *manyWorkers) float64 { return w.IdleCPU }), many("%.0f", func(w *manyWorkers) float64 { return w.IdleBrokerCPU }),
			many("%.1f", func(w *manyWorkers) float64 { return w.IdleIn }), many("%.1f", func(w *manyWorkers) float64 { return w.IdleOut }),
			cell("%.0f", func(o outcome) float64 { return o.Rate }), cell("%.0f", func(o outcome) float64 { return o.CPU }),
			cell("%.0f", func(o outcome) float64 { return o.BrokerCPU }), cell("%.0f", outcome.sum), number("%.2f", ratio(of, last, outcome.sum)),
			many("%.1f", func(w *manyWorkers) float64 { return w.In }), many("%.1f", func(w *manyWorkers) float64 { return w.Out }),
			many("%.2f", func(w *manyWorkers) float64 { return w.Limit }), many("%.1f", func(w *manyWorkers) float64 { return w.Joined }),
			many("%.1f", func(w *manyWorkers) float64 { return w.Lost }), cell("%.0f", func(o outcome) float64 { return o.Peak }))
	}
	return t
}

// fleetStage is a stage with n workers.
type fleetStage struct {
	*stage
	control *fleet.Control
	n       int
	addrs   []string // of the workers' profiles
}

// tryWorkers measures n workers: idle, with a full queue, at a shared limit, and when one joins and dies.
func (r *rig) tryWorkers(ctx context.Context, t trial, n, limited int, idle time.Duration) (out outcome, err error) {
	s := &fleetStage{stage: &stage{rig: r, trial: t}, n: n}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w%s", err, s.lastWords(errorLines, ""))
		}
		s.end()
	}()
	if s.api, err = r.startAPI(ctx, contender.SinkOptions{Delay: workersDelay}); err != nil {
		return out, err
	}
	if s.broker, err = s.startBroker(1, s.profile != ""); err != nil {
		return out, err
	}
	if s.queue, err = s.broker.open(ctx); err != nil {
		return out, err
	}
	s.connect, s.control = s.broker.connect, fleet.New(s.queue)
	for range n {
		if err := s.add(); err != nil {
			return out, err
		}
	}
	out.Workers = &manyWorkers{}
	for _, measure := range []func(context.Context, *outcome) error{
		func(ctx context.Context, out *outcome) error { return s.idle(ctx, out, idle) },
		s.load,
		func(ctx context.Context, out *outcome) error { return s.limit(ctx, out, limited) },
		s.change,
	} {
		if err := measure(ctx, &out); err != nil {
			return out, err
		}
	}
	if err := s.allAccepted(ctx); err != nil {
		return out, err
	}
	for _, p := range s.workers {
		p.note()
		out.Peak = max(out.Peak, float64(p.peak)/(1<<20))
	}
	return out, nil
}

// add starts one more worker.
func (s *fleetStage) add() error {
	more := []string{"ORDERPOST_NATS_URL=" + s.broker.url, fmt.Sprintf("ORDERPOST_CONCURRENCY=%d", s.inFlight), fmt.Sprintf("ORDERPOST_WORKER_NAME=worker-%d", len(s.workers)+1)}
	if s.profile != "" {
		addrs, err := freeAddrs(1)
		if err != nil {
			return err
		}
		s.addrs = append(s.addrs, addrs[0])
		more = append(more, "ORDERPOST_OPS_ADDR="+addrs[0])
	}
	p, err := start(s.dir, "worker", s.orderpost, s.workerEnv(more...), "worker")
	if err == nil {
		s.workers = append(s.workers, p)
	}
	return err
}

// until reads the fleet until it is as it should be.
func (s *fleetStage) until(ctx context.Context, is func(v *fleet.View) bool) error {
	for {
		v, err := s.control.Read(ctx)
		if err != nil || is(v) {
			return err
		}
		for _, p := range s.workers {
			select {
			case <-p.done:
				return fmt.Errorf("%s", p.lastWords(errorLines, ""))
			default:
			}
		}
		if err := s.workers[0].lookAgain(ctx); err != nil {
			return err
		}
	}
}

// all reports whether a view shows n workers, and each as it should be.
func all(v *fleet.View, n int, is func(fleet.Presence) bool) bool {
	present := v.Present()
	return len(present) == n && !slices.ContainsFunc(present, func(p fleet.Presence) bool { return !is(p) })
}

// use is what the processes and the server have used so far.
type use struct {
	workers, broker time.Duration
	in, out         uint64
	at              time.Time
}

func (s *fleetStage) used(ctx context.Context) (u use, err error) {
	u.in, u.out, err = s.broker.messages(ctx)
	for _, p := range s.workers {
		u.workers += p.used()
	}
	u.broker, u.at = s.broker.nodes[0].used(), time.Now()
	return u, err
}

// idle measures workers that have nothing to do and that know each other.
func (s *fleetStage) idle(ctx context.Context, out *outcome, idle time.Duration) error {
	err := s.until(ctx, func(v *fleet.View) bool {
		return all(v, s.n, func(p fleet.Presence) bool { return p.Open && p.Joined })
	})
	if err != nil {
		return err
	}
	before, err := s.used(ctx)
	if err != nil {
		return err
	}
	s.profileAll("idle", int(idle.Seconds()))
	select {
	case <-time.After(idle): // what is measured
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := s.used(ctx)
	took, w := after.at.Sub(before.at).Seconds(), out.Workers
	each := took * float64(s.n)
	w.IdleCPU, w.IdleBrokerCPU = (after.workers-before.workers).Seconds()*1000/each, (after.broker-before.broker).Seconds()*1000/took
	w.IdleIn, w.IdleOut = float64(after.in-before.in)/each, float64(after.out-before.out)/each
	return err
}

// release holds the fleet, has the queue filled with orders, and releases it.
func (s *fleetStage) release(ctx context.Context, from, to int) (before use, err error) {
	if err = s.control.SetHold(ctx, fleet.Hold{Since: time.Now()}); err != nil {
		return before, err
	}
	if err = s.until(ctx, func(v *fleet.View) bool { return all(v, s.n, func(p fleet.Presence) bool { return !p.Open }) }); err != nil {
		return before, err
	}
	if err = fill(ctx, s.queue, from, to); err != nil {
		return before, err
	}
	if before, err = s.used(ctx); err != nil {
		return before, err
	}
	return before, s.control.Resume(ctx, "bench")
}

// load measures workers with a full queue.
func (s *fleetStage) load(ctx context.Context, out *outcome) error {
	before, err := s.release(ctx, 0, s.orders)
	if err != nil {
		return err
	}
	s.profileAll("load", profileSeconds)
	ended, err := s.untilDone(ctx)
	if err != nil {
		return err
	}
	after, err := s.used(ctx)
	n := float64(s.orders)
	out.Rate = n / ended.Sub(before.at).Seconds()
	out.CPU, out.BrokerCPU = micros(after.workers-before.workers)/n, micros(after.broker-before.broker)/n
	out.Workers.In, out.Workers.Out = float64(after.in-before.in)/n, float64(after.out-before.out)/n
	return err
}

// shared reports whether a view shows that the workers divide the limit without one that was lost.
func (s *fleetStage) shared(lost string) func(v *fleet.View) bool {
	return func(v *fleet.View) bool {
		return !slices.ContainsFunc(v.Present(), func(p fleet.Presence) bool { return p.Worker != lost && p.Share != workersLimit/float64(s.n) })
	}
}

// limit measures how much of a shared limit the workers use.
func (s *fleetStage) limit(ctx context.Context, out *outcome, n int) error {
	if err := s.control.SetLimit(ctx, &fleet.Limit{PerSecond: workersLimit, At: time.Now()}); err != nil {
		return err
	}
	if err := s.until(ctx, s.shared("")); err != nil {
		return err
	}
	before, err := s.release(ctx, s.orders, s.orders+n)
	if err != nil {
		return err
	}
	s.orders += n
	if _, err := s.untilDone(ctx); err != nil {
		return err
	}
	seen, err := s.api.seen(ctx, false)
	out.Workers.Limit = float64(n) / workersLimit / time.Unix(0, seen.LastAt).Sub(before.at).Seconds()
	return err
}

// change measures how soon the others notice a worker that joins, and one that is killed. The limit is set.
func (s *fleetStage) change(ctx context.Context, out *outcome) error {
	if err := s.add(); err != nil {
		return err
	}
	name := fmt.Sprintf("worker-%d", len(s.workers))
	var came time.Time
	err := s.until(ctx, func(v *fleet.View) bool {
		at := slices.IndexFunc(v.Members, func(p fleet.Presence) bool { return p.Worker == name })
		if at >= 0 && came.IsZero() {
			came = time.Now()
		}
		return at >= 0 && v.Members[at].Joined
	})
	if err != nil {
		return err
	}
	out.Workers.Joined = time.Since(came).Seconds()
	last := s.workers[len(s.workers)-1]
	if err := last.cmd.Process.Kill(); err != nil {
		return err
	}
	<-last.done
	s.workers = s.workers[:len(s.workers)-1]
	killed := time.Now()
	err = s.until(ctx, s.shared(name))
	out.Workers.Lost = time.Since(killed).Seconds()
	return err
}

// profileAll reads the CPU profiles of all workers and of the server meanwhile, if they are asked for.
func (s *fleetStage) profileAll(phase string, seconds int) {
	if s.profile == "" {
		return
	}
	take := func(addr, of string) {
		if err := takeProfile(addr, fmt.Sprintf("%s.%s.%s", s.profile, phase, of), seconds); err != nil {
			s.say("no profile: %v", err)
		}
	}
	for i, addr := range s.addrs {
		go take(addr, fmt.Sprintf("worker-%d", i+1))
	}
	go take(s.broker.profiles[0], "nats-server")
}

// messages returns how many messages the first server has had from clients and sent to them.
func (b *broker) messages(ctx context.Context) (in, out uint64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.monitors[0]+"/varz", nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	var seen struct {
		In  uint64 `json:"in_msgs"`
		Out uint64 `json:"out_msgs"`
	}
	err = json.NewDecoder(resp.Body).Decode(&seen)
	return seen.In, seen.Out, errors.Join(err, resp.Body.Close())
}
