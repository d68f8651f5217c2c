package ops

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The bounds of the classic buckets, in seconds and bytes. Servers with native
// histograms ignore them.
var (
	// Requests time out after 30 s by default.
	durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	// An order takes from milliseconds to 24 hours, the default total retry budget.
	settlingBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400}
	sizeBuckets     = []float64{256, 512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	// By default, an order in hand waits up to 10 s at a closed gate. It waits for the
	// rate limit without a bound.
	waitingBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 30, 60}
	// By default, up to 10 s in hand and 5 min in the queue.
	retryBuckets = []float64{.1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900}
)

// The parameters of native histograms: buckets of at most 10 % width, and a bound on
// their number, because the durations depend on the API.
const (
	nativeFactor     = 1.1
	nativeBuckets    = 100
	nativeResetAfter = time.Hour
)

func histogram(f promauto.Factory, name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(histogramOpts(name, help, buckets))
}

func histograms(f promauto.Factory, name, help string, buckets []float64, label string) *prometheus.HistogramVec {
	return f.NewHistogramVec(histogramOpts(name, help, buckets), []string{label})
}

func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: nativeResetAfter,
	}
}

// observe adds a duration to a histogram, as an exemplar if its trace is sampled.
func observe(h prometheus.Histogram, d time.Duration, traceID string) {
	if e, ok := h.(prometheus.ExemplarObserver); ok && traceID != "" {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	h.Observe(d.Seconds())
}

func counter(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// byNumber returns the counters of a closed set, indexed by its values. A value outside
// the set gets a counter that is not exported, because it must not crash the worker.
func byNumber[T interface {
	~uint8
	String() string
}](vec *prometheus.CounterVec, all []T) []prometheus.Counter {
	out := make([]prometheus.Counter, slices.Max(all)+1)
	nowhere := prometheus.NewCounter(prometheus.CounterOpts{Name: "nowhere"})
	for i := range out {
		out[i] = nowhere
	}
	for _, v := range all {
		out[v] = vec.WithLabelValues(v.String())
	}
	return out
}
