package fleet

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Binds is what holds the rate of a worker.
type Binds string

// What can hold the rate. A worker that could send more than there is to send is held by
// nothing.
const (
	// BindsLimit: orders wait for the rate limit.
	BindsLimit Binds = "limit"
	// BindsSlots: every slot has an order at the API. More slots or workers post more.
	BindsSlots Binds = "slots"
	// BindsAPI: the API is slow or silent, or it asked for fewer requests.
	BindsAPI Binds = "api"
)

// SlowAnswer is the median time for an answer from which on the API is called slow.
const SlowAnswer = time.Second

// SilentAfter is how long an API may answer nothing before people are told.
const SilentAfter = 2 * time.Second

// Pace is how fast the fleet sends, and what holds it.
type Pace struct {
	// PerSecond is the fleet's requests per second.
	PerSecond float64 `json:"per_second"`
	// P50MS and P99MS are those of the worker for which the API is slowest, SilentMS that
	// of the one that got no answer for the longest time. All are 0 if nothing is known.
	P50MS    float64 `json:"p50_ms,omitempty"`
	P99MS    float64 `json:"p99_ms,omitempty"`
	SilentMS int64   `json:"silent_ms,omitempty"`
	// Binds is what holds the rate: of several things the one that costs most.
	Binds Binds `json:"binds,omitempty"`

	slots, posting int
	at, of         int // workers that Binds holds, of all
}

// PaceOf sums up what workers tell.
func PaceOf(workers []Presence) (p Pace) {
	at := make(map[Binds]int)
	for _, w := range workers {
		p.PerSecond += w.Rate
		p.P50MS, p.P99MS, p.SilentMS = max(p.P50MS, w.P50MS), max(p.P99MS, w.P99MS), max(p.SilentMS, w.SilentMS)
		p.slots, p.posting = p.slots+w.Slots, p.posting+min(w.InFlight, w.Slots)
		at[w.Binds]++
	}
	for _, b := range []Binds{BindsAPI, BindsLimit, BindsSlots} {
		if at[b] > 0 {
			p.Binds, p.at = b, at[b]
			break
		}
	}
	p.of = len(workers)
	return p
}

// Says is one sentence about the pace; "" if no answer came lately and nothing holds the
// rate.
func (p Pace) Says() string {
	answers := ""
	if p.P50MS > 0 {
		answers = fmt.Sprintf("answers take %s (p50) and %s (p99)", millis(p.P50MS), millis(p.P99MS))
	}
	what := ""
	silent := time.Duration(p.SilentMS) * time.Millisecond
	switch {
	case p.Binds == BindsAPI && silent >= SilentAfter && p.SilentMS > int64(p.P99MS):
		return fmt.Sprintf("the API is slow: it has answered nothing for %d s, and %s%s", int(silent.Seconds()), ordersWait(p.posting), p.where())
	case p.Binds == BindsAPI && p.P50MS >= float64(SlowAnswer.Milliseconds()):
		return fmt.Sprintf("the API is slow: %s; %d of %d slots are in use%s", answers, p.posting, p.slots, p.where())
	case p.Binds == BindsAPI:
		what = "the API holds the rate: it asked for fewer requests"
	case p.Binds == BindsLimit:
		what = "the rate limit holds the rate"
	case p.Binds == BindsSlots:
		what = fmt.Sprintf("the slots hold the rate: %d of %d are in use", p.posting, p.slots)
	case answers == "":
		return ""
	default:
		return "nothing holds the rate; " + answers
	}
	what += p.where()
	if answers != "" {
		what += "; " + answers
	}
	return what
}

func ordersWait(n int) string {
	if n == 1 {
		return "1 order waits for it"
	}
	return strconv.Itoa(n) + " orders wait for it"
}

// where says how many workers are held.
func (p Pace) where() string {
	if p.at == p.of {
		return ""
	}
	return fmt.Sprintf(" (at %d of %d workers)", p.at, p.of)
}

// millis is a time for people: 12 ms, 340 ms, 10.2 s.
func millis(ms float64) string {
	if ms < 1000 {
		return strconv.FormatFloat(math.Max(1, math.Round(ms)), 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(math.Round(ms/100)/10, 'f', -1, 64) + " s"
}

// Answers says how long the API takes for this worker, in a few words; "" if nothing is
// known.
func (w Presence) Answers() string {
	if w.P50MS == 0 {
		return ""
	}
	return "p50 " + millis(w.P50MS) + ", p99 " + millis(w.P99MS)
}

// Words is what holds the rate, for people.
func (b Binds) Words() string {
	switch b {
	case BindsLimit:
		return "the limit"
	case BindsSlots:
		return "the slots"
	case BindsAPI:
		return "the API"
	default:
		return string(b)
	}
}
