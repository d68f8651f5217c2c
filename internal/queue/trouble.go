package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// troublePrefix begins the keys under which a worker says that the API or the
// account is in trouble, and that it is the one that probes for all.
const troublePrefix = fleetPrefix + "trouble."

// Trouble is what stops the whole fleet until one worker finds it mended.
type Trouble struct {
	// Owner is the ID of the worker that probes; Worker is its name.
	Owner  string `json:"owner"`
	Worker string `json:"worker"`
	Reason string `json:"reason"`
	// Mark restricts it to the workers that use the same key; empty = all.
	Mark  string    `json:"mark,omitempty"`
	Since time.Time `json:"since"`
	// Revision is the number of the entry.
	Revision uint64 `json:"-"`
}

// ErrTaken is returned where another worker was first.
var ErrTaken = errors.New("another worker was first")

// OwnTrouble makes this worker the one that probes: the first for revision 0,
// else in place of the one whose entry has that revision. ErrTaken: somebody
// else did.
func (q *Queue) OwnTrouble(ctx context.Context, name string, t Trouble, revision uint64) error {
	_, err := q.swapKey(ctx, troublePrefix+name, t, revision)
	if errors.Is(err, settle.ErrStale) {
		return ErrTaken
	}
	return err
}

// EndTrouble says that what this worker probed for is mended.
func (q *Queue) EndTrouble(ctx context.Context, name string, revision uint64) error {
	return q.deleteKey(ctx, troublePrefix+name, jetstream.LastRevision(revision))
}
