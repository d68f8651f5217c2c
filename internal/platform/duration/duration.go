// Package duration reads the settings of time of all programs, within bounds that no sum of
// them and today's date overflows.
package duration

import (
	"fmt"
	"time"
)

// Longest is the largest value of a setting of time: 100 years. time.Time and JetStream's TTLs
// count nanoseconds in 64 bits, which end 292 years after 1970. A result that was kept "for ever" would
// have expired before it was written.
const Longest = 100 * 365 * 24 * time.Hour

// Parse reads a setting of time. The error says what was given and what is wanted, and begins with the value.
func Parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil { // also if it does not fit into 64 bits
		return 0, fmt.Errorf("%.40q is not a duration such as 500ms, 30s or 2h, at most %s", text, longest)
	}
	return d, Check(d)
}

// Check returns an error if a setting of time is below 0 or above Longest.
func Check(d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("%s is below 0", d)
	case d > Longest:
		return fmt.Errorf("%s is too long; give at most %s", d, longest)
	}
	return nil
}

const longest = "876000h (100 years)"

// Value is a flag of time.
type Value time.Duration

// Set implements flag.Value.
func (v *Value) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = Value(d)
	}
	return err
}

// String implements flag.Value.
func (v *Value) String() string {
	if *v == 0 {
		return "0" // help shows no default then
	}
	return time.Duration(*v).String()
}

// Type implements pflag.Value.
func (v *Value) Type() string { return "duration" }
