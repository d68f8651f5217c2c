// Package secret is the type of settings that are never printed: neither by fmt, whatever the
// verb, nor as JSON.
package secret

import "fmt"

// Text is a setting that is never printed.
type Text string

// String hides the value.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return "****"
}

// GoString hides the value.
func (t Text) GoString() string { return t.String() }

// Format hides the value whatever the verb.
func (t Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(t.String())) }

// MarshalText hides the value.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
