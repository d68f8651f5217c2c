package uploads

import (
	"errors"
	"fmt"
)

// Kind says what a person can do about a refusal.
type Kind int

// The kinds of refusals.
const (
	// Unusable: the file cannot be imported, whoever uploads it.
	Unusable Kind = iota + 1
	// TooLarge: the file is above a limit.
	TooLarge
	// BrokenOff: the file did not arrive completely.
	BrokenOff
	// NoRoom: the disk or the folder is full.
	NoRoom
	// Busy: a job of the upload is running.
	Busy
	// Unready: a step before this one is missing.
	Unready
	// Gone: there is no such upload, or it was removed.
	Gone
	// Changed: the upload is not as the person saw it.
	Changed
)

// Refusal is an error that says what was seen and what to do.
type Refusal struct {
	Kind Kind
	Text string
	Err  error // the cause, if there is one
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// KindOf returns the kind of a refusal, or 0 for another error.
func KindOf(err error) Kind {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Kind
	}
	return 0
}

func refuse(kind Kind, format string, args ...any) *Refusal {
	err := fmt.Errorf(format, args...)
	return &Refusal{Kind: kind, Text: err.Error(), Err: errors.Unwrap(err)}
}

// inBytes writes a size for people.
func inBytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
