package sandbox

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Settings can be changed while the server runs.
type Settings struct {
	// Window is how far a timestamp may be off the server's clock, in both directions.
	Window time.Duration
	// Skew is how far the server's clock is ahead of the real one; its Date
	// header shows it.
	Skew time.Duration
	// Duplicates says what happens to an order_no that was created before.
	Duplicates Duplicates
	// Manner says how failures are answered.
	Manner Manner
	// Latency is the delay of every answer. Jitter is the largest random addition.
	Latency, Jitter time.Duration
	// Rate limits all requests together, per second; 0 = no limit. Burst is how many
	// may come at once; 0 = the requests of one second.
	Rate  float64
	Burst int
	// LookupLag is how long after its creation GET of an order does not find it yet.
	LookupLag time.Duration
	// Faults are the injected faults.
	Faults Faults
	// Seed decides which attempts of which orders meet which faults.
	Seed uint64
	// Down makes the whole API unreachable.
	Down Down
}

// Faults configures the faults of attempts to create an order. Rates are probabilities
// from 0 to 1.
//
// Whether an attempt meets a fault depends only on the seed, the order_no and the
// number of the attempt. A run is thus reproducible at any concurrency. Each fault is
// drawn independently. If several hit the same attempt, one of them is drawn.
type Faults struct {
	// Slow delays the answer by SlowDelay. It may coincide with another fault.
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
	// Other answers 200 with the success of another order and creates nothing.
	Other float64
	// ToldBefore answers Told and creates nothing. ToldAfter creates the order first.
	ToldBefore, ToldAfter float64
	Told                  Told
	// Late closes the connection without an answer, and carries the request out LateDelay later, if its
	// timestamp is inside the window then: it was held up on its way.
	Late      float64
	LateDelay time.Duration
	// Refuse is the share of orders that the server refuses for good. It is drawn for
	// the order_no, not for the attempt. The server refuses before it looks for
	// duplicates. It thus also refuses an order that it created before Refuse was
	// raised.
	Refuse float64
	// MaxPerOrder is how many attempts of one order may meet a fault; 0 = no limit.
	// Refuse does not count.
	MaxPerOrder int
}

func (s Settings) withDefaults() Settings {
	if s.Window == 0 {
		s.Window = DefaultWindow
	}
	if s.Faults.SlowDelay == 0 {
		s.Faults.SlowDelay = DefaultSlowDelay
	}
	if s.Faults.LateDelay == 0 {
		s.Faults.LateDelay = DefaultLateDelay
	}
	if s.Faults.RetryAfter == 0 {
		s.Faults.RetryAfter = DefaultRetryAfter
	}
	return s
}

// Validate returns an error that joins all invalid settings, named as on the command
// line.
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
