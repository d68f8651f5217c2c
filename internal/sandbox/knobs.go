package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/platform/duration"
)

// value is one setting as text. It has the methods of pflag.Value. The command line,
// the environment and the admin endpoint thus share one parser.
type value interface {
	String() string
	Set(string) error
	Type() string
}

// Setting is one of the [Settings] with its name.
type Setting struct {
	value
	Name string
	Help string
}

// Each yields every setting. Setting its value changes s.
func (s *Settings) Each(yield func(Setting) bool) {
	for _, k := range knobs {
		if !yield(Setting{value: k.in(s), Name: k.name, Help: k.help}) {
			return
		}
	}
}

// Set changes the setting with this name.
func (s *Settings) Set(name, text string) error {
	for _, k := range knobs {
		if k.name == name {
			if err := k.in(s).Set(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%s: there is no such setting", name)
}

type knob struct {
	name string
	help string
	in   func(*Settings) value
}

// knobs lists all settings. Flags, environment, admin endpoint and validation use it.
var knobs = []knob{
	{"window", "how far a timestamp may be from the server's clock, either way",
		func(s *Settings) value { return (*durationValue)(&s.Window) }},
	{"skew", "how far the server's clock is ahead of the real one (negative: behind)",
		func(s *Settings) value { return (*durationValue)(&s.Skew) }},
	{"duplicates", "an order_no that exists: refuse (409), return (the original) or create-twice",
		func(s *Settings) value { return wordValue[Duplicates]{duplicatesWords, &s.Duplicates} }},
	{"manner", "how failures are answered: status (HTTP codes), code or errno (HTTP 200), fields (HTTP 400)",
		func(s *Settings) value { return wordValue[Manner]{mannerWords, &s.Manner} }},
	{"latency", "how long every answer takes",
		func(s *Settings) value { return (*durationValue)(&s.Latency) }},
	{"jitter", "what is added to the latency, at most",
		func(s *Settings) value { return (*durationValue)(&s.Jitter) }},
	{"rate", "how many requests a second are taken, the rest answered 429; 0 is no limit",
		func(s *Settings) value { return (*numberValue)(&s.Rate) }},
	{"burst", "how many requests are taken at once under --rate; 0 is a second's worth",
		func(s *Settings) value { return (*countValue)(&s.Burst) }},
	{"lookup-lag", "how long after its creation GET of an order does not find it yet",
		func(s *Settings) value { return (*durationValue)(&s.LookupLag) }},
	{"seed", "decides which attempts of which orders meet which faults",
		func(s *Settings) value { return (*seedValue)(&s.Seed) }},
	{"down", "outage: up (none), drop (every request unanswered) or refuse (connections)",
		func(s *Settings) value { return wordValue[Down]{downWords, &s.Down} }},
	{"fault-slow", "share of attempts answered only after --slow-delay",
		func(s *Settings) value { return (*rateValue)(&s.Faults.Slow) }},
	{"slow-delay", "how long a slow answer takes, on top of the latency",
		func(s *Settings) value { return (*durationValue)(&s.Faults.SlowDelay) }},
	{"fault-503", "share of attempts answered 503, nothing created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.Unavailable) }},
	{"fault-503-after", "share of attempts answered 503, the order created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.UnavailableAfter) }},
	{"fault-429", "share of attempts answered 429, nothing created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.TooMany) }},
	{"retry-after", "what the Retry-After of such a 429 says",
		func(s *Settings) value { return (*durationValue)(&s.Faults.RetryAfter) }},
	{"retry-after-form", "the form of every Retry-After: seconds, date or none",
		func(s *Settings) value { return wordValue[RetryAfterForm]{retryWords, &s.Faults.RetryAfterForm} }},
	{"fault-drop-before", "share of attempts whose connection closes unanswered, nothing created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.DropBefore) }},
	{"fault-drop-after", "share of attempts whose connection closes unanswered, the order created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.DropAfter) }},
	{"fault-garbage", "share of attempts answered 200 with an unreadable body, the order created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.Garbage) }},
	{"garbage-form", "that body: mixed (of the next four), html, truncated, empty, binary; gzip-bomb, endless, drip",
		func(s *Settings) value { return wordValue[GarbageForm]{garbageWords, &s.Faults.GarbageForm} }},
	{"fault-other", "share of attempts answered 200 with the success of another order, nothing created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.Other) }},
	{"fault-told", "share of attempts answered with --told, nothing created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.ToldBefore) }},
	{"fault-told-after", "share of attempts answered with --told, the order created",
		func(s *Settings) value { return (*rateValue)(&s.Faults.ToldAfter) }},
	{"told", "status and body of these; {order_no} is the order's number",
		func(s *Settings) value { return &s.Faults.Told }},
	{"fault-late", "share of attempts whose connection closes unanswered, and that are carried out --late-delay later",
		func(s *Settings) value { return (*rateValue)(&s.Faults.Late) }},
	{"late-delay", "how long such a request is on its way",
		func(s *Settings) value { return (*durationValue)(&s.Faults.LateDelay) }},
	{"fault-refuse", "share of orders (not attempts) refused for good",
		func(s *Settings) value { return (*rateValue)(&s.Faults.Refuse) }},
	{"max-faults-per-order", "how many attempts of one order may meet a fault; 0 is no limit",
		func(s *Settings) value { return (*countValue)(&s.Faults.MaxPerOrder) }},
}

type (
	durationValue time.Duration
	rateValue     float64
	numberValue   float64
	countValue    int
	seedValue     uint64
)

func (v *durationValue) String() string { return time.Duration(*v).String() }
func (v *durationValue) Type() string   { return "duration" }
func (v *durationValue) Set(s string) error {
	bare, negative := strings.CutPrefix(s, "-") // a clock may be behind; Validate refuses the others
	d, err := duration.Parse(bare)
	if err != nil {
		return err
	}
	if negative {
		d = -d
	}
	*v = durationValue(d)
	return nil
}

func (v *rateValue) String() string     { return formatFloat(float64(*v)) }
func (v *rateValue) Type() string       { return "0..1" }
func (v *rateValue) Set(s string) error { return (*numberValue)(v).Set(s) }

func (v *numberValue) String() string { return formatFloat(float64(*v)) }
func (v *numberValue) Type() string   { return "number" }
func (v *numberValue) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", s)
	}
	*v = numberValue(f)
	return nil
}

func (v *countValue) String() string { return strconv.Itoa(int(*v)) }
func (v *countValue) Type() string   { return "count" }
func (v *countValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", s)
	}
	*v = countValue(n)
	return nil
}

func (v *seedValue) String() string { return strconv.FormatUint(uint64(*v), 10) }
func (v *seedValue) Type() string   { return "number" }
func (v *seedValue) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number from 0 to 2^64-1", s)
	}
	*v = seedValue(n)
	return nil
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
