package settle

import (
	"context"
	"errors"
)

// ErrUnreachable is returned if the broker did not answer in time. The message
// names the broker's address.
var ErrUnreachable = errors.New("broker out of reach")

// Patience is how a person's command waits for a broker that is out of reach. A
// worker has no Patience: it must not hold a claim while it waits.
type Patience interface {
	// Transient reports whether a request failed because the broker was out of
	// reach.
	Transient(err error) bool
	// Wait returns the Wait of one caller.
	Wait() Wait
}

// Wait measures how long one caller waits.
type Wait interface {
	// Backoff pauses before a request that failed with cause is repeated. It
	// returns an error if the request must not be repeated: ErrUnreachable
	// (wrapped) when the time is up, the broker's refusal, or the error of ctx.
	Backoff(ctx context.Context, cause error) error
	// Answered says that the broker answered another request meanwhile. If the connection
	// was lost before that, the next failure is another outage, and begins a new wait.
	Answered()
	// Done says that the caller does not wait any more. Its next failure begins
	// a new wait.
	Done()
}

// impatient is the Patience of callers that do not wait.
type impatient struct{}

func (impatient) Transient(error) bool                 { return false }
func (impatient) Wait() Wait                           { return impatient{} }
func (impatient) Backoff(context.Context, error) error { return nil }
func (impatient) Answered()                            {}
func (impatient) Done()                                {}
