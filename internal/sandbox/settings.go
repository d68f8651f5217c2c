package sandbox

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Settings are the manners of the server: everything that can be changed while
// it runs.
type Settings struct {
	// Window is how far a timestamp may be from the server's clock, either way.
	Window time.Duration
	// Skew is how far the server's clock is ahead of the real one; its Date
	// header shows it.
	Skew time.Duration
	// Duplicates says what happens to an order_no that was created before.
	Duplicates Duplicates
	// Manner says how failures are answered.
	Manner Manner
	// Latency is how long every answer takes, Jitter what is added at most.
	Latency, Jitter time.Duration
	// Rate is how many requests a second are taken, all together; 0 is no
	// limit. Burst is how many at once; 0 is a second's worth.
	Rate  float64
	Burst int
	// Faults are what goes wrong.
	Faults Faults
	// Seed decides which attempts of which orders meet which faults.
	Seed uint64
	// Down makes the whole API unreachable.
	Down Down
}

// Faults are injected into attempts to create an order. Rates are
// probabilities from 0 to 1. Whether an attempt meets a fault depends on the
// seed, the order_no and how many attempts that order had, and on nothing
// else, so that a run repeats whatever its concurrency. Each kind is drawn by
// itself; where several hit the same attempt, one of them, drawn too, is met.
type Faults struct {
	// Slow answers only after SlowDelay. It may come on top of another fault.
	Slow      float64
	SlowDelay time.Duration
	// Unavailable answers 503 and creates nothing.
	Unavailable float64
	// UnavailableAfter creates the order and answers 503.
	UnavailableAfter float64
	// TooMany answers 429 with RetryAfter and creates nothing.
	TooMany        float64
	RetryAfter     time.Duration
	RetryAfterForm RetryAfterForm
	// DropBefore closes the connection without an answer and creates nothing.
	DropBefore float64
	// DropAfter creates the order and closes the connection without an answer.
	DropAfter float64
	// Garbage creates the order and answers 200 with a body in GarbageForm.
	Garbage     float64
	GarbageForm GarbageForm
	// Other answers 200 about another order, as a connection that is out of step
	// does, and creates nothing.
	Other float64
	// Refuse is the share of orders that are refused for good: drawn for the
	// order_no, not for the attempt. The server refuses before it looks for a
	// duplicate, so that an order that was created before Refuse was raised is
	// refused all the same.
	Refuse float64
	// MaxPerOrder is how many attempts of one order may meet a fault; 0 is no
	// limit. Refuse does not count.
	MaxPerOrder int
}

func (s Settings) withDefaults() Settings {
	if s.Window == 0 {
		s.Window = DefaultWindow
	}
	if s.Faults.SlowDelay == 0 {
		s.Faults.SlowDelay = DefaultSlowDelay
	}
	if s.Faults.RetryAfter == 0 {
		s.Faults.RetryAfter = DefaultRetryAfter
	}
	return s
}

// Validate names every bad setting by its name on the command line.
func (s Settings) Validate() error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf(name+": "+format, args...))
	}
	for _, k := range knobs {
		switch v := k.in(&s).(type) {
		case *rateValue:
			if r := float64(*v); !(r >= 0 && r <= 1) {
				bad(k.name, "%v is not a rate between 0 and 1", r)
			}
		case *durationValue:
			if *v < 0 && k.name != "skew" {
				bad(k.name, "%s is negative", time.Duration(*v))
			}
		case *countValue:
			if *v < 0 {
				bad(k.name, "%d is negative", int(*v))
			}
		case word:
			if !v.known() {
				bad(k.name, "%d is none of its values", v.number())
			}
		}
	}
	if !(s.Rate >= 0) || math.IsInf(s.Rate, 0) {
		bad("rate", "%v is not a number of requests a second", s.Rate)
	}
	return errors.Join(errs...)
}
