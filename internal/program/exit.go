// Package program holds what the command-line programs have in common.
package program

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
	// ExitPartial: done, but some rows or orders did not make it.
	ExitPartial = 3
	// ExitUnreachable: the broker or the API is out of reach.
	ExitUnreachable = 4
	// ExitInterrupted: ended by a signal.
	ExitInterrupted = 130
)

// ExitError is an error that decides the program's exit code. Commands return
// it; the one place that calls os.Exit reads it by [ExitCode].
type ExitError struct {
	Code int
	// Err is shown to the user. It may be nil where the program has said all
	// that there is to say.
	Err error
}

// Error gives the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives Err.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the exit code for what a program's run returned: [ExitDone] for
// nil, the code of an [*ExitError] anywhere in its chain, else [ExitFailed].
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
