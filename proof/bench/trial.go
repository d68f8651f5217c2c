package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/queue"
	"orderpost/proof/bench/contender"
)

// trial is one contender's working-off of one queue.
type trial struct {
	contender string
	inFlight  int
	orders    int
	// warm orders come before the rate is measured.
	warm int
	// rate, in orders a second: published while the contender works, instead
	// of filled in before.
	rate int
	// nodes is the number of servers, which is also that of replicas; 0 = 1.
	nodes   int
	profile string
}

// outcome is what a trial measured.
type outcome struct {
	Rate      float64   `json:"orders_per_second"`
	CPU       float64   `json:"cpu_us_per_order"`
	Peak      float64   `json:"peak_mb"`
	BrokerCPU float64   `json:"broker_cpu_us_per_order"`
	SinkCPU   float64   `json:"api_cpu_us_per_order"`
	Transit   []float64 `json:"-"` // ms, sorted
	// Fsyncs of an order by what was synced; nil if they were not counted.
	Fsyncs map[string]float64 `json:"fsyncs_per_order,omitempty"`
	// Workers is of the workers case.
	Workers *manyWorkers `json:"workers,omitempty"`
	// Freed is after how many seconds an order_no is free again; 0 if it was not measured.
	Freed  float64 `json:"free_again_p99_s,omitempty"`
	Failed string  `json:"failed,omitempty"` // failed or left out, and why; the rest is empty
}

// fsyncs are all of an order; not a number if they were not counted.
func (o outcome) fsyncs() (sum float64) {
	if o.Fsyncs == nil {
		return math.NaN()
	}
	for _, n := range o.Fsyncs {
		sum += n
	}
	return sum
}

// freed is Freed; not a number if it was not measured.
func (o outcome) freed() float64 {
	if o.Freed == 0 {
		return math.NaN()
	}
	return o.Freed
}

// sum is the CPU of worker and brokers.
func (o outcome) sum() float64 { return o.CPU + o.BrokerCPU }

// stage is what one trial runs on.
type stage struct {
	*rig
	trial
	api     *api
	broker  *broker // nil if the worker runs it
	queue   *queue.Queue
	workers []*process
	connect func() (*nats.Conn, jetstream.JetStream, error) // to the queue's broker, beside the queue
	// profileAddr is where a profiled worker serves its profile.
	profileAddr string
}

// trialTimeout bounds one trial, the filling of its queue included.
const trialTimeout = 10 * time.Minute

// try runs one trial with a fresh API and a fresh broker.
func (r *rig) try(ctx context.Context, t trial) (out outcome, err error) {
	s := &stage{rig: r, trial: t}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w%s", err, s.lastWords(errorLines, ""))
		}
		s.end()
	}()
	s.api, err = r.startAPI(ctx, contender.SinkOptions{Warm: int64(t.warm), Transit: t.rate > 0})
	if err != nil {
		return out, err
	}
	if err := s.prepareQueue(ctx); err != nil {
		return out, err
	}
	if err := s.startWorker(); err != nil {
		return out, err
	}
	if t.rate > 0 {
		if err := s.publishSteadily(ctx); err != nil {
			return out, err
		}
	}
	ended, err := s.untilDone(ctx)
	if err != nil {
		return out, err
	}
	return s.measure(ctx, ended)
}

func (s *stage) prepareQueue(ctx context.Context) (err error) {
	if s.broker, err = s.startBroker(max(1, s.nodes), s.profile != ""); err != nil {
		return err
	}
	s.connect = s.broker.connect
	if s.queue, err = s.broker.open(ctx); err != nil {
		return err
	}
	if s.contender == usual {
		if err := s.broker.makeOutcomes(ctx); err != nil {
			return err
		}
	}
	if err := s.broker.placeLeaders(ctx); err != nil {
		return err
	}
	if s.rate > 0 {
		return nil
	}
	err = fill(ctx, s.queue, 0, s.orders)
	s.broker.mark()
	return err
}

func (s *stage) startWorker() error {
	var p *process
	var err error
	switch s.contender {
	case usual:
		p, err = start(s.dir, "usual", s.self, s.env(), "usual", "--url", s.api.url, "--nats", s.broker.url,
			"--stream", intentsStream, "--consumer", poolConsumer, "--outcomes", outcomesPrefix, "--in-flight", strconv.Itoa(s.inFlight))
	default:
		if s.profile != "" {
			addrs, err := freeAddrs(1)
			if err != nil {
				return err
			}
			s.profileAddr = addrs[0]
		}
		p, err = start(s.dir, "worker", s.orderpost, s.workerEnv("ORDERPOST_NATS_URL="+s.broker.url, "ORDERPOST_REPLICAS="+strconv.Itoa(s.broker.replicas),
			"ORDERPOST_CONCURRENCY="+strconv.Itoa(s.inFlight)), "worker")
	}
	if err != nil {
		return err
	}
	s.workers = append(s.workers, p)
	if s.profile != "" {
		go s.takeProfiles()
	}
	return nil
}

// workerEnv is the worker's environment: its defaults but for what the trial
// is about.
func (s *stage) workerEnv(more ...string) []string {
	env := append(s.env(), "ORDERPOST_API_URL="+s.api.url, "ORDERPOST_API_KEY="+contender.APIKey, "ORDERPOST_API_SECRET="+contender.APISecret,
		"ORDERPOST_WORKER_NAME=worker-1", "ORDERPOST_LOG_FORMAT=json", "ORDERPOST_OPS_ADDR=127.0.0.1:0")
	if s.profile != "" {
		env = append(env, "ORDERPOST_PPROF=true", "ORDERPOST_OPS_ADDR="+s.profileAddr)
	}
	env = append(env, more...)
	for _, set := range s.settings {
		env = append(env, "ORDERPOST_"+set)
	}
	return env
}

// untilDone waits until the API has seen every order and none is left in the queue.
func (s *stage) untilDone(ctx context.Context) (time.Time, error) {
	var p progress
	longest := stallTimeout * time.Duration(1+s.orders/1_000_000)
	for pending := uint64(0); ; {
		seen, err := s.api.seen(ctx, false)
		if err != nil {
			return time.Time{}, err
		}
		idle := p.noted(seen.Orders, pending)
		if idle > longest {
			return time.Time{}, fmt.Errorf("the API has seen %d orders of %d, and nothing moved for %s", seen.Orders, s.orders, longest)
		}
		s.told(ctx, &p, idle)
		if seen.Refused > 0 {
			return time.Time{}, fmt.Errorf("the API refused %d signatures", seen.Refused)
		}
		if seen.Orders >= int64(s.orders) {
			if c, err := s.queue.Census.Count(ctx); err == nil {
				if pending = c.Pending + c.Waiting; pending == 0 {
					return time.Now(), nil
				}
			}
		}
		if err := s.workers[0].lookAgain(ctx); err != nil {
			return time.Time{}, fmt.Errorf("%w: the API has seen %d orders of %d", err, seen.Orders, s.orders)
		}
	}
}

// measure ends everything and reads what it used.
func (s *stage) measure(ctx context.Context, ended time.Time) (out outcome, err error) {
	seen, err := s.api.seen(ctx, s.rate > 0)
	if err != nil {
		return out, err
	}
	if seen.Refused > 0 {
		return out, fmt.Errorf("the API refused %d signatures", seen.Refused)
	}
	if s.broker != nil {
		s.broker.freeze() // what follows reads the books
	}
	out.Rate = float64(seen.Orders-int64(s.warm)) / ended.Sub(time.Unix(0, seen.WarmAt)).Seconds()
	if s.contender == ours {
		if err := s.allAccepted(ctx); err != nil {
			return out, err
		}
	}
	if s.contender == usual {
		if n, err := s.broker.countOutcomes(ctx); err != nil || n < uint64(s.orders) {
			return out, errors.Join(err, fmt.Errorf("%d outcomes are stored of %d", n, s.orders))
		}
	}
	posted := float64(seen.Orders)
	for _, p := range s.workers {
		if err := p.stop(); err != nil {
			return out, err
		}
		out.CPU += micros(p.cpu()) / posted
		out.Peak = max(out.Peak, float64(p.peak)/(1<<20))
	}
	if s.broker != nil {
		s.queue.Close()
		s.queue = nil
		if err := s.broker.stop(); err != nil {
			return out, err
		}
		out.BrokerCPU = micros(s.broker.cpu()) / posted
	}
	if err := s.api.stop(); err != nil {
		return out, err
	}
	out.SinkCPU = micros(s.api.cpu()) / posted
	for _, ns := range seen.Transits {
		out.Transit = append(out.Transit, float64(ns)/1e6)
	}
	slices.Sort(out.Transit)
	return out, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// end kills what a failed trial left running.
func (s *stage) end() {
	if s.queue != nil {
		s.queue.Close()
	}
	for _, p := range s.all() {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	if s.broker != nil && s.broker.dir != "" {
		_ = os.RemoveAll(s.broker.dir)
	}
}

func (s *stage) all() []*process {
	list := slices.Clone(s.workers)
	if s.broker != nil {
		list = append(list, s.broker.nodes...)
	}
	if s.api != nil && s.api.process != nil {
		list = append(list, s.api.process)
	}
	return list
}

// lastWords are those of the servers, the API and the first workers.
func (s *stage) lastWords(n int, about string) (text string) {
	for i, p := range s.all() {
		if i < 3 || i >= len(s.workers) {
			text += "\n" + p.lastWords(n, about)
		}
	}
	return text
}
