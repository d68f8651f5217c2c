package submit

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// ClockMode is the setting of ORDERPOST_CLOCK.
type ClockMode uint8

// The clock modes.
const (
	// ClockLocal stamps with this machine's clock.
	ClockLocal ClockMode = iota
	// ClockServer stamps with this machine's clock, corrected by the offset
	// estimated from the API's answers.
	ClockServer
)

// String returns the setting's value.
func (m ClockMode) String() string {
	if m == ClockServer {
		return "server"
	}
	return "local"
}

// MarshalText implements encoding.TextMarshaler.
func (m ClockMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *ClockMode) UnmarshalText(text []byte) error {
	switch string(text) {
	case "local":
		*m = ClockLocal
	case "server":
		*m = ClockServer
	default:
		return fmt.Errorf("unknown clock %q: expected local or server", text)
	}
	return nil
}

const (
	clockSamples = 64
	// clockEvery is the shortest time between two samples. The window thus covers at
	// least 64 × 250 ms.
	clockEvery = 250 * time.Millisecond
	// clockRTT is the longest round trip that is used as a sample.
	clockRTT = 5 * time.Second
)

// clock returns timestamps and estimates the API's clock.
//
// The API writes an answer's Date header between our sending and our receiving, and
// truncates it to the second. So one answer bounds the offset, the API's clock minus
// ours, to an interval:
//
//	Date − received  <  offset  <  Date + 1s − sent.
//
// The estimate is the middle of the intersection of the last 64 intervals. If the
// intersection is empty, because somebody set a clock or a cache answered, the
// estimate is the median of the intervals' middles, which outliers do not move.
type clock struct {
	mode  ClockMode
	limit time.Duration // the smallest difference that causes a warning
	log   zerolog.Logger

	mu      sync.Mutex
	samples []clockSample // ring
	next    int
	last    time.Time // when the last sample was taken
	warned  bool
	est     ClockEstimate
}

type clockSample struct{ low, high time.Duration }

func (s clockSample) middle() time.Duration { return s.low + (s.high-s.low)/2 }

// ClockEstimate is an estimate of the API's clock.
type ClockEstimate struct {
	// Offset is the API's clock minus this machine's.
	Offset time.Duration
	// Error is half the width of the interval that holds the offset.
	Error time.Duration
	// Samples is the number of answers in the estimate; 0 = there is no estimate.
	Samples int
}

func newClock(mode ClockMode, limit time.Duration, log zerolog.Logger) *clock {
	return &clock{mode: mode, limit: limit, log: log}
}

// stamp returns the timestamp of the next attempt in milliseconds: the present time
// by ORDERPOST_CLOCK, but always later than the order's last timestamp
// (docs/signing.md).
func (c *clock) stamp(last int64) int64 {
	now := time.Now()
	if c.mode == ClockServer {
		now = now.Add(c.estimate().Offset)
	}
	return max(now.UnixMilli(), last+1)
}

func (c *clock) estimate() ClockEstimate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.est
}

// observe adds an answer's Date to the estimate. With reset it drops the earlier
// samples first, because the API refused a timestamp.
func (c *clock) observe(h http.Header, sent, received time.Time, reset bool) {
	if h.Get("Age") != "" || received.Sub(sent) > clockRTT {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !reset && !c.last.IsZero() && received.Sub(c.last) < clockEvery {
		return
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	if reset {
		c.samples, c.next, c.est = c.samples[:0], 0, ClockEstimate{}
	}
	c.last = received
	s := clockSample{low: date.Sub(received), high: date.Add(time.Second).Sub(sent)}
	if len(c.samples) < clockSamples {
		c.samples = append(c.samples, s)
	} else {
		c.samples[c.next] = s
		c.next = (c.next + 1) % clockSamples
	}
	c.est = estimateOf(c.samples)
	c.warn()
}

func estimateOf(samples []clockSample) ClockEstimate {
	low, high := samples[0].low, samples[0].high
	for _, s := range samples[1:] {
		low, high = max(low, s.low), min(high, s.high)
	}
	if low <= high {
		return ClockEstimate{Offset: low + (high-low)/2, Error: (high - low) / 2, Samples: len(samples)}
	}
	middles := make([]time.Duration, len(samples))
	for i, s := range samples {
		middles[i] = s.middle()
	}
	slices.Sort(middles)
	return ClockEstimate{Offset: middles[len(middles)/2], Error: (low - high) / 2, Samples: len(samples)}
}

// warn logs once that the clocks differ, and once that they agree again.
func (c *clock) warn() {
	off := c.est.Offset.Abs()-c.est.Error > c.limit
	if off == c.warned {
		return
	}
	c.warned = off
	if !off {
		c.log.Info().Dur("offset_ms", c.est.Offset).Msg("clock agrees with the API's again")
		return
	}
	advice := "set this machine's clock, or ORDERPOST_CLOCK=server"
	if c.mode == ClockServer {
		advice = "timestamps follow the API's clock"
	}
	c.log.Warn().Dur("offset_ms", c.est.Offset).Str("advice", advice).Msg("clock differs from the API's")
}
