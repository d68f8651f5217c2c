package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orderpost/internal/fleet"
)

// senderKey is the key of the fleet's bucket that holds Kept. Only the process that holds
// the lease writes it, by compare-and-set.
const senderKey = "notify.sender"

// Kept is what the bucket keeps of the sender: its lease and its position. They are one
// value, so a process that lost the lease cannot move the position.
type Kept struct {
	fleet.Leader
	// Position is how far the results are delivered.
	Position Position `json:"position"`
	allTold
	// Pause is until when the receiver asked not to be sent anything; zero = it did not.
	Pause time.Time `json:"pause,omitzero"`
}

// allTold is what the receiver was told last, besides outcomes.
type allTold struct {
	// Fleet is what it was told of holds.
	Fleet fleetTold `json:"fleet,omitzero"`
	// Imports is which imports it was told of; nil = import.settled was never asked for.
	Imports *importsTold `json:"imports,omitempty"`
	// Blocked and Needed are what it was told of a blocked fleet, and of what needs a person.
	Blocked blockedTold `json:"blocked,omitzero"`
	Needed  neededTold  `json:"needed,omitzero"`
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

// adopt takes over what the last sender kept. A fleet's first sender begins at a position of its own. If
// the bucket was lost, this process still knows what it read there before.
func (s *Sender) adopt(ctx context.Context, stored []byte) (err error) {
	if stored == nil {
		s.kept.Imports = nil // those that it is about went with the bucket
		if s.kept.Position.Birth == 0 {
			s.kept.Position, err = s.beginning(ctx)
		}
		return err
	}
	var kept Kept
	if err := json.Unmarshal(stored, &kept); err != nil {
		return fmt.Errorf("bucket %s, key %s: a newer version wrote it: %w; run that version", s.queue.Bucket().Name(), senderKey, err)
	}
	kept.Leader = s.kept.Leader
	s.kept = kept
	return nil
}
