// Package cli holds the common parts of the command-line programs.
package cli

import (
	"errors"
	"fmt"
)

// The exit codes of the command-line programs.
const (
	// ExitDone: all done.
	ExitDone = 0
	// ExitFailed: the program failed.
	ExitFailed = 1
	// ExitUsage: wrong usage or configuration; nothing was done.
	ExitUsage = 2
	// ExitPartial: done, but not for all rows or orders.
	ExitPartial = 3
	// ExitUnreachable: the broker or the API is out of reach.
	ExitUnreachable = 4
	// ExitInterrupted: ended by a signal.
	ExitInterrupted = 130
)

// ExitError is an error with the program's exit code. Commands return it, and
// [ExitCode] reads it.
type ExitError struct {
	Code int
	// Err is shown to the user; nil = the program has printed everything already.
	Err error
}

// Error returns the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code for an error: [ExitDone] for nil, the code of an
// [*ExitError] in its chain, otherwise [ExitFailed].
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &exit):
		return exit.Code
	default:
		return ExitFailed
	}
}
