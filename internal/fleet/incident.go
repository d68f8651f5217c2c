package fleet

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/settle"
)

// incidentPrefix begins the keys of incidents. The name of the gate's block
// follows. Running fleets know the keys as "trouble", so the word stays.
const incidentPrefix = controlPrefix + "trouble."

// Incident says that the API or the account fails, and which worker probes for
// all. It stops the whole fleet until that worker finds that it is over.
type Incident struct {
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

// errOtherFirst is returned if another worker wrote the incident meanwhile.
var errOtherFirst = errors.New("another worker was first")

// recordIncident makes i.Owner the worker that probes: for revision 0 if nobody
// does yet, else in place of the worker whose entry has that revision. Error:
// errOtherFirst.
func (c *Control) recordIncident(ctx context.Context, name string, i Incident, revision uint64) error {
	_, err := c.bucket.Swap(ctx, incidentPrefix+name, i, revision)
	if errors.Is(err, settle.ErrStale) {
		return errOtherFirst
	}
	return err
}

// endIncident says that the incident with this revision is over.
func (c *Control) endIncident(ctx context.Context, name string, revision uint64) error {
	return c.bucket.Delete(ctx, incidentPrefix+name, revision)
}
