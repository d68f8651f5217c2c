package ops

import (
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
)

// Native histograms: buckets of at most 10 % width, and a bound for their
// number, since durations come from outside.
const (
	nativeFactor     = 1.1
	nativeBuckets    = 100
	nativeResetAfter = time.Hour
)

func histogram(f promauto.Factory, name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: nativeResetAfter,
	})
}

func counter(f promauto.Factory, name, help, label string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
}
