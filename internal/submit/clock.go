package submit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

// ClockMode is the setting of ORDERPOST_CLOCK.
type ClockMode string

// The clock modes.
const (
	// ClockLocal stamps with this machine's clock.
	ClockLocal ClockMode = "local"
	// ClockServer stamps with this machine's clock, corrected by the offset
	// estimated from the API's answers.
	ClockServer ClockMode = "server"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *ClockMode) UnmarshalText(text []byte) error {
	if *m = ClockMode(text); *m != ClockLocal && *m != ClockServer {
		return fmt.Errorf("unknown clock %q: expected local or server", text)
	}
	return nil
}

const (
	clockSamples = 64
	// clockEvery is the shortest time between two samples that agree. The window thus
	// covers at least 64 × 250 ms.
	clockEvery = 250 * time.Millisecond
	// clockRTT is the longest round trip that is used as a sample.
	clockRTT = 5 * time.Second
	// clockJump is the difference between the wall clock and the monotonic clock at
	// which this machine's clock was set, or the machine was suspended.
	clockJump = 500 * time.Millisecond
)

// clock returns timestamps and estimates the API's clock.
//
// The API writes an answer's Date header between our sending and our receiving, and
// truncates it to the second. So one answer bounds the offset, the API's clock minus
// ours, to an interval:
//
//	Date − received  <  offset  <  Date + 1s − sent.
//
// The estimate is the middle of the intersection of the last 64 intervals. An interval
// that contradicts them shows that somebody set a clock, or that a cache or another
// server answered. The second one in a row that says so replaces what it contradicts,
// and the first one does if the API refused the timestamp. Until there are any, the clocks
// are taken to be within the limit of each other.
type clock struct {
	mode  ClockMode
	limit time.Duration // the smallest difference that causes a warning
	log   zerolog.Logger

	mu      sync.Mutex
	samples []clockSample // they agree with each other; the newest is last
	odd     *clockSample  // the last answer, if it contradicts them
	last    time.Time     // when the last sample was taken
	wall    time.Time     // the same, by the wall clock alone
	warned  bool
	est     ClockEstimate
	// tolerated is the greatest difference between a timestamp and the API's clock with
	// which the API accepted an order.
	tolerated time.Duration
	// shown is the last answer that refused a timestamp, for people. explained says
	// that the clock was seen to be wrong then.
	shown     string
	explained bool
}

type clockSample struct{ low, high time.Duration }

// and returns the intersection with another interval; ok is false if it is empty.
func (s clockSample) and(o clockSample) (both clockSample, ok bool) {
	both = clockSample{max(s.low, o.low), min(s.high, o.high)}
	return both, both.low <= both.high
}

// ClockEstimate is an estimate of the API's clock.
type ClockEstimate struct {
	// Offset is the API's clock minus this machine's.
	Offset time.Duration
	// Error is half the width of the interval that holds the offset.
	Error time.Duration
	// Samples is the number of answers in the estimate; 0 = there is no estimate.
	Samples int
}

// clockWarn is the difference to the API's clock at which a warning is logged, and from
// which a denial may be about the timestamp.
const clockWarn = 2 * time.Second

func newClock(mode ClockMode, limit time.Duration, log zerolog.Logger) *clock {
	return &clock{mode: mode, limit: limit, log: log}
}

// now returns the present time by ORDERPOST_CLOCK.
func (c *clock) now() time.Time {
	now := time.Now()
	if c.mode == ClockServer {
		now = now.Add(c.estimate().Offset)
	}
	return now
}

// deadlines returns the present time by which deadlines are judged: this machine's, or the
// API's while the two are certainly further apart than the limit. An order must not expire
// because this machine's clock is ahead. After a jump of it the wall clock counts until
// answers agree again: then it may just have been put right, or the machine was suspended.
func (c *clock) deadlines() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.est.far(c.limit) && !c.setSince(now) {
		now = now.Add(c.est.Offset)
	}
	return now
}

// stamp returns the timestamp of the next attempt in milliseconds. last is the order's
// last timestamp (docs/signing.md).
func (c *clock) stamp(last int64) int64 { return order.NextTimestamp(last, c.now().UnixMilli()) }

func (c *clock) estimate() ClockEstimate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.est
}

// observe adds an answer's Date to the estimate. refused says that the API refused the
// timestamp: then this one answer outweighs earlier ones.
func (c *clock) observe(a *answer.Answer, sent, received time.Time, refused bool) {
	date, ok := dateOf(a.Header, sent, received)
	if !ok || a.Stray || !refused && mayBeBetween(a.Status) {
		return
	}
	s := clockSample{low: date.Sub(received), high: date.Add(time.Second).Sub(sent)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.samples) > 0 && c.setSince(received) {
		c.samples, c.odd = nil, nil // they are about the clock as it was
	}
	known := clockSample{-c.limit, c.limit}
	if len(c.samples) > 0 {
		known = clockSample{c.est.Offset - c.est.Error, c.est.Offset + c.est.Error}
	}
	_, agrees := s.and(known)
	switch {
	case agrees:
		if c.odd = nil; !refused && len(c.samples) > 0 && received.Sub(c.last) < clockEvery {
			return
		}
	case refused:
	case c.odd == nil:
		c.odd = &s
		return
	default:
		if _, twice := s.and(*c.odd); !twice {
			c.odd = &s
			return
		}
		c.samples = append(c.samples, *c.odd)
	}
	c.last, c.wall, c.odd = received, received.Round(0), nil
	c.take(s)
	c.warn()
}

// mayBeBetween reports whether an answer with this status may be that of a proxy or a gateway,
// which has a clock of its own.
func mayBeBetween(status int) bool {
	return status/100 != 2 && status/100 != 4 || status == http.StatusProxyAuthRequired
}

// contradicted reports whether the last answer contradicts what is known.
func (c *clock) contradicted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.odd != nil
}

// dateOf returns the API's clock as an answer tells it.
func dateOf(h http.Header, sent, received time.Time) (date time.Time, ok bool) {
	if h.Get("Age") != "" || received.Sub(sent) > clockRTT {
		return date, false
	}
	date, err := http.ParseTime(h.Get("Date"))
	return date, err == nil
}

// setSince reports whether this machine's clock was set since the last sample.
func (c *clock) setSince(now time.Time) bool {
	return !c.last.IsZero() && (now.Round(0).Sub(c.wall)-now.Sub(c.last)).Abs() > clockJump
}

// take adds a sample and drops those that contradict it or newer ones. The caller holds
// c.mu.
func (c *clock) take(s clockSample) {
	kept, all := []clockSample{s}, s
	for i := len(c.samples) - 1; i >= 0 && len(kept) < clockSamples; i-- {
		if both, ok := all.and(c.samples[i]); ok {
			all = both
			kept = append(kept, c.samples[i])
		}
	}
	slices.Reverse(kept)
	half := (all.high - all.low) / 2
	c.samples, c.est = kept, ClockEstimate{Offset: all.low + half, Error: half, Samples: len(kept)}
}

// warn logs once that the clocks differ, and once that they agree again.
func (c *clock) warn() {
	off := c.est.far(c.limit)
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

// far reports whether the offset is certainly greater than a limit.
func (e ClockEstimate) far(limit time.Duration) bool { return e.Offset.Abs()-e.Error > limit }

// advice says in a sentence that this machine's clock is wrong, and what to do; "" if
// timestamps agree with the API's clock.
func (c *clock) advice() string {
	e := c.estimate()
	if c.mode == ClockServer || !e.far(c.limit) {
		return ""
	}
	return "this machine's clock is " + differs(e.Offset) + " the API's: set it, or ORDERPOST_CLOCK=server"
}

// differs says how far this machine's clock is from the API's.
func differs(offset time.Duration) string {
	word := "behind"
	if offset < 0 {
		word = "ahead of"
	}
	d := offset.Abs().Round(time.Second)
	return cmp.Or(d, time.Second).String() + " " + word
}

// wrong returns how far a timestamp is from the API's clock, by the answer's own Date or
// else by the estimate; 0 if it may be right.
func (c *clock) wrong(stamp int64, h http.Header, sent, received time.Time) time.Duration {
	at := time.UnixMilli(stamp)
	if date, ok := dateOf(h, sent, received); ok {
		return outside(at, date.Add(sent.Sub(received)), date.Add(time.Second))
	}
	e := c.estimate()
	if e.Samples == 0 {
		return 0
	}
	return outside(at, sent.Add(e.Offset-e.Error), received.Add(e.Offset+e.Error))
}

// outside returns how far t is outside an interval.
func outside(t, from, to time.Time) time.Duration {
	switch {
	case t.Before(from):
		return from.Sub(t)
	case t.After(to):
		return t.Sub(to)
	default:
		return 0
	}
}

// accepted notes that the API accepted an order whose timestamp was wrong by that much.
func (c *clock) accepted(wrong time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tolerated = max(c.tolerated, wrong)
}

// limitFor returns how wrong a timestamp must be to explain a refusal. Unless the answer
// speaks of the time, it must be more wrong than one that was accepted.
func (c *clock) limitFor(named bool) time.Duration {
	if named {
		return c.limit
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit + c.tolerated
}

// namesTime reports whether an answer speaks of the time of the request.
func namesTime(body []byte) bool {
	text := strings.ToLower(string(body[:min(len(body), 1024)]))
	return slices.ContainsFunc([]string{"timestamp", "time stamp", "time_stamp", "clock", "recvwindow", "time window"}, func(word string) bool {
		return strings.Contains(text, word)
	})
}

// refused says why an API refuses timestamps, as far as the clock shows it, and quotes
// its answer.
func (c *clock) refused(shown string) string {
	what := c.advice()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown, c.explained = ". The API refuses its timestamps, and answers: "+shown, what != ""
	return cmp.Or(what, unexplained) + c.shown
}

// unexplained is the reason of a refusal by an API whose clock is unknown, or agrees.
const unexplained = "the API does not accept the time by which orders are stamped: is this machine's clock right, and ORDERPOST_CLOCK?"

// looked says what is still wrong with the clock after a refusal; "" if it was wrong and
// now is right.
func (c *clock) looked() string {
	what := c.advice()
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == "" && c.explained {
		return ""
	}
	return cmp.Or(what, unexplained) + c.shown
}
