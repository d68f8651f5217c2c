package settle

import (
	"context"
	"errors"
)

// ErrUnreachable is returned where the broker did not answer in time. The
// message names its address.
var ErrUnreachable = errors.New("broker out of reach")

// Patience is how a person's command waits for a broker that is out of reach. A
// worker has none: it must not hold a claim while it waits.
type Patience interface {
	// Passing says whether a request failed because the broker was out of reach.
	Passing(err error) bool
	// Wait begins to count how long one caller waits.
	Wait() Wait
}

// Wait is one caller's wait.
type Wait interface {
	// Again pauses before a request that failed for cause is repeated. It returns
	// an error where that is not to be: ErrUnreachable (wrapped) when the time is
	// up, the broker's refusal, or the context's end.
	Again(ctx context.Context, cause error) error
	// Over says that the caller waits no more. Another wait begins at its next
	// failure.
	Over()
}

// patient: requests wait for a broker that is out of reach.
func (q *Protocol) patient() bool { return q.cfg.Patience != Patience(impatient{}) }

// impatient is for those who do not wait.
type impatient struct{}

func (impatient) Passing(error) bool                 { return false }
func (impatient) Wait() Wait                         { return impatient{} }
func (impatient) Again(context.Context, error) error { return nil }
func (impatient) Over()                              {}
