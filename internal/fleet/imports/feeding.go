package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Keys of the fleet's bucket. Each has one writer's discipline: LeaseKey is written
// by the worker that holds the lease, holdsKey by compare-and-set.
const (
	LeaseKey = "waiting.feeder"
	holdsKey = "waiting.holds"
)

// Lease says which worker feeds the queue from the waiting room (R13).
type Lease struct {
	fleet.Leader
	// Holds is the revision of the holds that the feeder keeps. It moves no intent of
	// the imports that are held in it, and has none of them in hand.
	Holds uint64 `json:"holds,omitempty"`
	// Lanes say what waits.
	Lanes []queue.Lane `json:"lanes,omitempty"`
}

// Feeding is what decides what is fed.
type Feeding struct {
	// Lease is nil if no worker ever fed or the last one left.
	Lease         *Lease
	LeaseRevision uint64
	// Holds are the paused imports, by their tokens.
	Holds         map[string]*Hold
	HoldsRevision uint64
	// Cancelled are the cancellations that are not done.
	Cancelled         settle.Cancellations
	cancelledRevision uint64
	// Approvals are what needs a second person, and what was approved.
	Approvals         Approvals
	approvalsRevision uint64
}

// Held reports whether a person paused an import, by its token.
func (f *Feeding) Held(token string) bool { return f.Holds[token] != nil }

// ErrBehind is returned by ReadFeeding if a replica answered that lags behind.
var ErrBehind = errors.New("the replica that answered lags behind; ask again")

// ReadFeeding reads it as it was at a revision of the bucket, or later (R2). The
// revision is one at which the lease or the holds were written; 0 asks for no proof.
func ReadFeeding(ctx context.Context, q *queue.Queue, revision uint64) (*Feeding, error) {
	entries, err := q.Bucket().Last(ctx, LeaseKey, holdsKey, fleet.CancelledKey, approvalsKey) // a producer may read only so
	if err != nil {
		return nil, err
	}
	f := &Feeding{}
	for _, e := range entries {
		var err error
		switch e.Key {
		case LeaseKey:
			f.Lease, f.LeaseRevision = new(Lease), e.Revision
			if json.Unmarshal(e.Value, f.Lease) != nil {
				f.Lease = &Lease{} // a newer version's; it is taken over like any other
			} else if f.Lease.Owner == "" {
				f.Lease = nil
			}
		case fleet.CancelledKey:
			f.cancelledRevision = e.Revision
			f.Cancelled, err = fleet.ReadCancellations(e)
		case approvalsKey:
			f.approvalsRevision = e.Revision
			if err = json.Unmarshal(e.Value, &f.Approvals); err != nil {
				err = fmt.Errorf("what was approved cannot be read, so nothing that needs it is sent or done: %w", err)
			}
		default:
			f.HoldsRevision = e.Revision
			err = json.Unmarshal(e.Value, &f.Holds)
		}
		if err != nil {
			return nil, fmt.Errorf("bucket %s, key %s: %w", q.Bucket().Name(), e.Key, err)
		}
	}
	if max(f.LeaseRevision, f.HoldsRevision, f.cancelledRevision, f.approvalsRevision) < revision {
		return nil, ErrBehind
	}
	return f, nil
}
