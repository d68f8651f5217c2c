package ops

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"orderpost/internal/order"
)

const namespace = "orderpost"

// NewRegistry returns a registry with the metrics of the Go runtime and the process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Options configure the metrics.
type Options struct {
	// Version is the program's version, for build_info.
	Version string
	// Blocks and Stages name the gate's blocks and their stages. All series exist from
	// the start.
	Blocks, Stages []string
	// State returns the current state. It is called at every scrape and must be quick
	// and safe for concurrent use. nil means the zero Snapshot.
	State func() Snapshot
}

// Metrics holds a worker's counters and histograms. Its methods are quick and safe for
// concurrent use. No label contains data of an order, unless an answer repeats it in words.
type Metrics struct {
	// Indexed by value, which saves a lookup for each event.
	orders, attempts, returned, lookups []prometheus.Counter
	explained, unexplained              prometheus.Counter
	poisoned                            prometheus.Counter
	retryHand, retryQueue               prometheus.Observer
	closings                            *prometheus.CounterVec
	answers                             *answers

	settling prometheus.Histogram
	duration prometheus.Histogram
	size     prometheus.Histogram
	waiting  prometheus.Histogram
	rateWait prometheus.Histogram

	mu       sync.Mutex
	standing []string // the gate's blocks after the last change
}

// New registers the metrics with reg. It panics where reg has metrics of the
// same names: one worker, one registry.
func New(reg prometheus.Registerer, o Options) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		answers:  newAnswers(f),
		closings: counter(f, "gate_closings_total", "How often a reason not to post orders came up, by block.", "block"),

		poisoned: f.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "poisoned_orders_total",
			Help: "Orders that were put aside because they crashed their workers. Their outcome is usually unknown."}),
		settling: histogram(f, "enqueue_to_settled_seconds", "Time from the storing of an order's intent to its outcome.", settlingBuckets),
		duration: histogram(f, "request_duration_seconds", "Duration of a request that posted an order, from sending to the end of the answer (or of waiting for one).", durationBuckets),
		size:     histogram(f, "request_size_bytes", "Size of the body of a request that posted an order.", sizeBuckets),
		waiting:  histogram(f, "gate_wait_seconds", "Time that an order in hand waited for its turn before a request: for the gate to open, for the ramp and for the rate limit.", waitingBuckets),
		rateWait: histogram(f, "rate_limit_wait_seconds", "Time that an order in hand waited for the rate limit before a request; requests that did not wait for it are not counted. Part of gate_wait_seconds.", waitingBuckets),
	}
	m.setUpLabels(f, o)
	if o.State == nil {
		o.State = func() Snapshot { return Snapshot{} }
	}
	reg.MustRegister(collector(func(to scrape) { o.State().export(to, o.Blocks, o.Stages) }))
	buildInfo(f, o.Version)
	return m
}

// The values of the label for where an order waits for its next attempt.
const (
	inHand  = "hand"
	inQueue = "queue"
)

// setUpLabels creates every series before its first event. Otherwise rates and alerts
// would miss that event.
func (m *Metrics) setUpLabels(f promauto.Factory, o Options) {
	m.orders = byNumber(counter(f, "orders_total", "Orders that this worker settled, by outcome.", "outcome"), order.Outcomes())
	m.attempts = byNumber(counter(f, "attempts_total", "Requests that posted an order, by verdict.", "verdict"), order.Verdicts())
	m.returned = byNumber(counter(f, "returned_total", "Submissions that ended without an outcome, by what became of the order: put back with a delay, handed back at once, or left to another worker (merge).", "action"),
		[]order.Action{order.ActDelay, order.ActHandBack, order.ActMerge})
	m.lookups = byNumber(counter(f, "lookups_total", "Times that the API was asked whether it has an order in doubt, by what it said; nothing = no answer, or one that no lookup rule covers.", "found"), order.FoundAll())
	redeliveries := counter(f, "redeliveries_total", "Orders that arrived although they had been delivered before, by whether a note explains it. Unexplained ones mean that a worker went down.", "explained")
	m.explained, m.unexplained = redeliveries.WithLabelValues("true"), redeliveries.WithLabelValues("false")
	retries := histograms(f, "retry_wait_seconds", "Time that an order waits before its next attempt, by where it waits: in the worker's hand, or back in the queue.", retryBuckets, "where")
	m.retryHand, m.retryQueue = retries.WithLabelValues(inHand), retries.WithLabelValues(inQueue)
	for _, block := range o.Blocks {
		m.closings.WithLabelValues(block)
	}
}

func buildInfo(f promauto.Factory, version string) {
	f.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}).Set(1)
}

// Settled counts an outcome.
func (m *Metrics) Settled(outcome order.Outcome) { m.orders[outcome].Inc() }

// LookedUp counts a lookup.
func (m *Metrics) LookedUp(found order.Found) { m.lookups[found].Inc() }

// Poisoned counts an order that was put aside because it crashed its workers.
func (m *Metrics) Poisoned() { m.poisoned.Inc() }

// Took records the time from enqueue to outcome of a settled order. traceID makes it an
// exemplar; "" = its trace is not sampled.
func (m *Metrics) Took(d time.Duration, traceID string) { observe(m.settling, d, traceID) }

// Returned counts a submission that ended without an outcome.
func (m *Metrics) Returned(action order.Action) { m.returned[action].Inc() }

// Redelivered counts a redelivery. explained says that a note explains it.
func (m *Metrics) Redelivered(explained bool) {
	if explained {
		m.explained.Inc()
		return
	}
	m.unexplained.Inc()
}

// Retrying records the wait before the next attempt of an order. queued says that the
// order waits in the queue rather than in the worker's hand.
func (m *Metrics) Retrying(wait time.Duration, queued bool) {
	if queued {
		m.retryQueue.Observe(wait.Seconds())
		return
	}
	m.retryHand.Observe(wait.Seconds())
}

// Attempt is one POST of an order.
type Attempt struct {
	Verdict order.Verdict
	// Duration is the time from sending to the end of the answer.
	Duration time.Duration
	// Waited is the time spent waiting for the gate.
	Waited time.Duration
	// RateWaited is the part of Waited spent waiting for the rate limit.
	RateWaited time.Duration
	// Bytes is the size of the request's body.
	Bytes int
	// TraceID makes the duration an exemplar; "" = its trace is not sampled.
	TraceID string
}

// Attempted records an attempt.
func (m *Metrics) Attempted(a Attempt) {
	m.attempts[a.Verdict].Inc()
	observe(m.duration, a.Duration, a.TraceID)
	m.waiting.Observe(a.Waited.Seconds())
	m.size.Observe(float64(a.Bytes))
	if a.RateWaited > 0 {
		m.rateWait.Observe(a.RateWaited.Seconds())
	}
}

// GateChanged counts new blocks. Call it with the names of all standing blocks after
// each change, in order. A gauge alone would miss a block that comes and goes between
// two scrapes.
func (m *Metrics) GateChanged(standing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, block := range standing {
		if !slices.Contains(m.standing, block) && !slices.Contains(standing[:i], block) {
			m.closings.WithLabelValues(block).Inc()
		}
	}
	m.standing = append(m.standing[:0], standing...)
}
