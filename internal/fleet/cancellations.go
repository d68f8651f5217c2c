package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// CancelledKey is the key of the cancellations: one value, written by compare-and-set.
const CancelledKey = controlPrefix + "cancelled"

// mostCancellations bounds how many are not done at once: each change writes all of them.
const mostCancellations = 1000

// ErrCancellations is returned if too many cancellations are not done.
var ErrCancellations = fmt.Errorf("%d cancellations are not done yet: wait until workers have settled what they cover", mostCancellations)

// ReadCancellations reads a value of CancelledKey.
func ReadCancellations(e queue.Entry) (c settle.Cancellations, err error) {
	if err = json.Unmarshal(e.Value, &c); err != nil {
		err = fmt.Errorf("the bucket's key %s: %w", e.Key, err)
	}
	return c, err
}

// ChangeCancellations writes what change returns for the present marks, and returns what is
// stored then. It writes nothing if change returns the same marks, as same reports.
func (c *Control) ChangeCancellations(ctx context.Context, change func([]settle.Cancellation) (next []settle.Cancellation, same bool)) (now settle.Cancellations, err error) {
	err = queue.Again(ctx, func() error {
		entries, err := c.bucket.Last(ctx, CancelledKey, presencePrefix+">") // a producer may read only so
		if err != nil {
			return err
		}
		var revision uint64
		var known int64 // the version that a worker knows, also if the bucket was lost since
		now = settle.Cancellations{}
		for _, e := range entries {
			if e.Key != CancelledKey {
				known = max(known, readPresence(e).Cancelled)
				continue
			}
			revision = e.Revision
			if now, err = ReadCancellations(e); err != nil {
				return err
			}
		}
		next, same := change(now.Marks)
		if same {
			return nil
		}
		if len(next) > mostCancellations {
			return ErrCancellations
		}
		now.Marks, now.Version = next, max(now.Version, known)+1
		_, err = c.bucket.Swap(ctx, CancelledKey, now, revision)
		return err
	})
	return now, err
}

// Unaware names the workers that are present and do not know a version of the
// cancellations yet.
func (v *View) Unaware(version int64) (names []string) {
	for _, p := range v.Present() {
		if p.Cancelled < version {
			names = append(names, p.Worker)
		}
	}
	return names
}
