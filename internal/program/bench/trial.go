package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/program/bench/contender"
	"orderpost/internal/queue"
)

// trial is one contender's working-off of one queue.
type trial struct {
	contender string
	inFlight  int
	latency   time.Duration
	orders    int
	// warm orders come before the rate is measured.
	warm int
	// pending orders are filled in; the trial ends after orders of them. 0: orders.
	pending int
	// rate, in orders a second: published while the contender works, instead
	// of filled in before.
	rate int
	// tls: the API speaks https, with http2 by HTTP/2 as well.
	tls, http2 bool
	// nodes is the number of servers, which is also that of replicas; 0 = 1.
	nodes int
	// workers is the number of processes; 0 = 1.
	workers int
	profile string
	// waits: the orders are published to the waiting room. whole: the brokers' CPU
	// counts from before the publishing.
	waits, whole bool
	// hops: a bare loop moves them from there before the workers start.
	hops bool
}

// label names the contender in a table.
func (t trial) label() string {
	if t.http2 {
		return t.contender + ", HTTP/2"
	}
	return t.contender
}

// outcome is what a trial measured.
type outcome struct {
	Rate      float64   `json:"orders_per_second"`
	CPU       float64   `json:"cpu_us_per_order"`
	Peak      float64   `json:"peak_mb"`
	BrokerCPU float64   `json:"broker_cpu_us_per_order"`
	SinkCPU   float64   `json:"api_cpu_us_per_order"`
	Transit   []float64 `json:"-"` // ms, sorted
	Shares    []int     `json:"orders_by_worker,omitempty"`
	Again     int       `json:"redeliveries"`
	HTTP2     bool      `json:"http2,omitempty"` // orders came by it
	Published float64   `json:"published_per_second,omitempty"`
	Failed    string    `json:"failed,omitempty"` // why; the rest is empty
}

// sum is the CPU of worker and brokers.
func (o outcome) sum() float64 { return o.CPU + o.BrokerCPU }

// stage is what one trial runs on.
type stage struct {
	*rig
	trial
	api     *api
	broker  *broker      // nil for bare loops
	queue   *queue.Queue // nil for bare loops
	workers []*process
	// published is how many orders were published in a second.
	published float64
}

// trialTimeout bounds one trial, the filling of its queue included.
const trialTimeout = 10 * time.Minute

func (r *rig) tryFor(ctx context.Context, t trial, limit time.Duration) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the trial is not done within %s", limit))
	defer cancel()
	return r.try(ctx, t)
}

// try runs one trial with a fresh API and a fresh broker.
func (r *rig) try(ctx context.Context, t trial) (out outcome, err error) {
	s := &stage{rig: r, trial: t}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w%s", t.contender, err, s.lastWords())
		}
		s.end()
	}()
	sink := contender.SinkOptions{Latency: t.latency, Warm: int64(t.warm), Transit: t.rate > 0, HTTP2: t.http2}
	if t.tls {
		sink.Cert, sink.Key = r.cert.cert, r.cert.key
	}
	s.api, err = r.startAPI(ctx, sink)
	if err != nil {
		return out, err
	}
	if isBare(t.contender) {
		return s.bare(ctx)
	}
	if err := s.prepareQueue(ctx); err != nil {
		return out, err
	}
	if err := s.startWorkers(); err != nil {
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

// bare runs a loop without a queue. It ends by itself.
func (s *stage) bare(ctx context.Context) (out outcome, err error) {
	p, err := start(s.dir, "bare", s.self, os.Environ(), "bare", "--url", s.api.url, "--ca", s.api.ca, "--orders", strconv.Itoa(s.orders),
		"--in-flight", strconv.Itoa(s.inFlight), fmt.Sprintf("--fast=%v", s.contender == bareFast))
	if err != nil {
		return out, err
	}
	s.workers = append(s.workers, p)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			if p.err != nil {
				return out, p.err
			}
			return s.measure(ctx, time.Now())
		case <-tick.C:
			p.note()
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
}

func (s *stage) prepareQueue(ctx context.Context) (err error) {
	if s.broker, err = s.startBroker(max(1, s.nodes), s.profile != ""); err != nil {
		return err
	}
	if s.queue, err = s.broker.open(ctx); err != nil {
		return err
	}
	if stores(s.contender) {
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
	n, put := max(s.orders, s.pending), fill
	if s.waits {
		if err := s.makeWaitingRoom(ctx); err != nil {
			return err
		}
		put = func(ctx context.Context, q *queue.Queue, from, to int) error {
			return fillWaiting(ctx, q, from, to, "bench")
		}
	}
	if s.whole {
		s.broker.mark()
	}
	began := time.Now()
	err = put(ctx, s.queue, 0, n)
	s.published = float64(n) / time.Since(began).Seconds()
	if err == nil && s.hops {
		err = s.hop(ctx)
	}
	if !s.whole {
		s.broker.mark()
	}
	return err
}

func (s *stage) startWorkers() error {
	for i := range max(1, s.trial.workers) {
		var p *process
		var err error
		switch s.contender {
		case usual:
			p, err = s.startContender("usual", "")
		case usualStored:
			p, err = s.startContender("usual", outcomesPrefix)
		case leanStored:
			p, err = s.startContender("lean", outcomesPrefix)
		case leanChecked:
			p, err = s.startContender("checked", outcomesPrefix, "--bucket", queue.DefaultConfig().Bucket, "--replicated="+strconv.FormatBool(s.broker.replicas > 1))
		default:
			p, err = start(s.dir, "worker", s.worker, s.workerEnv(i, "ORDERPOST_NATS_URL="+s.broker.url, "ORDERPOST_REPLICAS="+strconv.Itoa(s.broker.replicas)))
		}
		if err != nil {
			return err
		}
		s.workers = append(s.workers, p)
	}
	if s.profile != "" {
		go s.takeProfiles()
	}
	return nil
}

func (s *stage) startContender(name, outcomes string, more ...string) (*process, error) {
	args := []string{name, "--url", s.api.url, "--ca", s.api.ca, "--nats", s.broker.url,
		"--stream", intentsStream, "--consumer", poolConsumer, "--outcomes", outcomes, "--in-flight", strconv.Itoa(s.inFlight)}
	return start(s.dir, name, s.self, os.Environ(), append(args, more...)...)
}

// workerEnv is the worker's environment: its defaults but for what the trial
// is about.
func (s *stage) workerEnv(i int, more ...string) []string {
	env := append(os.Environ(), "ORDERPOST_API_URL="+s.api.url, "ORDERPOST_API_CA_FILE="+s.api.ca, "ORDERPOST_API_KEY="+contender.APIKey, "ORDERPOST_API_SECRET="+contender.APISecret,
		"ORDERPOST_CONCURRENCY="+strconv.Itoa(s.inFlight), "ORDERPOST_WORKER_NAME=worker-"+strconv.Itoa(i+1), "ORDERPOST_LOG_FORMAT=json",
		"ORDERPOST_OPS_ADDR=127.0.0.1:0")
	if s.profile != "" {
		env = append(env, "ORDERPOST_PPROF=true", "ORDERPOST_OPS_ADDR="+profileAddr)
	}
	env = append(env, more...)
	for _, set := range s.settings {
		env = append(env, "ORDERPOST_"+set)
	}
	return env
}

// stallTimeout is how long a trial may go without progress.
const stallTimeout = time.Minute

// untilDone waits until the API has seen every order and, where the whole
// queue is worked off, none is left in it.
func (s *stage) untilDone(ctx context.Context) (time.Time, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var progress int64
	moved := time.Now()
	for {
		seen, err := s.api.seen(ctx, false)
		if err != nil {
			return time.Time{}, err
		}
		if seen.Orders > progress {
			progress, moved = seen.Orders, time.Now()
		}
		if time.Since(moved) > stallTimeout {
			return time.Time{}, fmt.Errorf("the API has seen %d orders of %d, and none for %s", seen.Orders, s.orders, stallTimeout)
		}
		if seen.Refused > 0 {
			return time.Time{}, fmt.Errorf("the API refused %d signatures", seen.Refused)
		}
		if seen.Orders >= int64(s.orders) {
			if s.pending > s.orders {
				return time.Now(), nil
			}
			if c, err := s.queue.Count(ctx); err == nil && c.Pending == 0 && c.Waiting == 0 {
				return time.Now(), nil
			}
		}
		select {
		case <-tick.C:
		case <-s.workers[0].done:
			return time.Time{}, s.endedEarly()
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%w: the API has seen %d orders of %d", context.Cause(ctx), seen.Orders, s.orders)
		}
	}
}

func (s *stage) endedEarly() error {
	return fmt.Errorf("it ended before its orders were done: %v", s.workers[0].cmd.ProcessState)
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
	out.Published = s.published
	if s.broker != nil {
		s.broker.freeze() // what follows reads the books
	}
	out.Rate = float64(seen.Orders-int64(s.warm)) / ended.Sub(time.Unix(0, seen.WarmAt)).Seconds()
	if s.contender == ours && s.queue != nil && s.pending <= s.orders {
		if err := s.readShares(ctx, &out); err != nil {
			return out, err
		}
	}
	if stores(s.contender) {
		if n, err := s.broker.countOutcomes(ctx); err != nil || n < uint64(s.orders) {
			return out, errors.Join(err, fmt.Errorf("%d outcomes are stored of %d", n, s.orders))
		}
	}
	out.HTTP2 = seen.HTTP2 > 0
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

func (s *stage) lastWords() (text string) {
	for _, p := range s.all() {
		text += "\n" + p.lastWords()
	}
	return text
}
