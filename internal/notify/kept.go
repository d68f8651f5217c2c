package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/queue"
)

// senderKey is the key of the fleet's bucket that holds Kept. Only the process that holds
// the lease writes it, by compare-and-set.
const senderKey = "notify.sender"

// Kept is what the bucket keeps of the sender: its lease and its position. They are one
// value, so a process that lost the lease cannot move the position.
type Kept struct {
	// Owner is unique for each run of a process; empty = nobody sends.
	Owner string `json:"owner,omitempty"`
	// Process is its name for people.
	Process string    `json:"process,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Beat counts renewals, so that each is another value.
	Beat uint64 `json:"beat"`
	// Position is how far the results are delivered.
	Position Position `json:"position"`
	// Fleet is what the receiver was last told of the fleet.
	Fleet fleetTold `json:"fleet,omitzero"`
	// Problem is why nothing is delivered at the moment.
	Problem string `json:"problem,omitempty"`
	// Pause is until when the receiver asked not to be sent anything; zero = it did not.
	Pause time.Time `json:"pause,omitzero"`
}

// Position is a place in the results: every event of a record up to Seq was delivered, or
// is kept aside.
type Position struct {
	mark
	// Birth is that of the stream, in nanoseconds since 1970 (orderpost.born); 0 = there is no position yet.
	Birth int64 `json:"birth"`
	// Marks are some of the records before, oldest first.
	Marks []mark `json:"marks,omitempty"`
}

// mark names a record: what is stored under its sequence at another time is another record.
type mark struct {
	Seq uint64 `json:"seq"`
	// At is when the broker stored the record. No other time is compared with it.
	At time.Time `json:"at,omitzero"`
}

// readKept reads what the bucket keeps; revision 0 = nothing.
func readKept(ctx context.Context, q *queue.Queue) (kept Kept, revision uint64, err error) {
	e, err := q.Bucket().Get(ctx, senderKey)
	if errors.Is(err, queue.ErrNoKey) {
		return Kept{}, 0, nil
	}
	if err != nil {
		return Kept{}, 0, err
	}
	if err := json.Unmarshal(e.Value, &kept); err != nil {
		return Kept{}, 0, fmt.Errorf("bucket %s, key %s: a newer version wrote it: %w; run that version", q.Bucket().Name(), senderKey, err)
	}
	return kept, e.Revision, nil
}
