package ops

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The bounds of the classic buckets, in seconds and bytes. Servers that take
// native histograms do not use them.
var (
	// Requests time out after 30 s by default.
	durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	// Orders are settled within milliseconds on a good day, and within the 24
	// hours of the total retry budget on a bad one.
	settlingBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400}
	sizeBuckets     = []float64{256, 512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	// At a closed gate an order in hand waits for 10 s by default, for the rate
	// limit as long as it takes.
	waitingBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 30, 60}
	// Up to 10 s in hand and 5 min in the queue by default.
	retryBuckets = []float64{.1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900}
)

// Native histograms: buckets of at most 10 % width, and a bound for their
// number, since durations come from outside.
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

func counter(f promauto.Factory, name, help, label string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
}

// byNumber gives the counters of a closed set by their numbers. What is not in
// the set is counted where nobody looks, rather than breaking a worker.
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
