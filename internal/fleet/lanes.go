package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// Lanes are the weights of the waiting room's lanes, set by persons.
type Lanes struct {
	Weights map[string]int `json:"weights,omitempty"`
	By      string         `json:"by,omitempty"`
	At      time.Time      `json:"at"`
}

// readLanes reads the weights. A fleet in which nobody set one has none.
func (c *Control) readLanes(ctx context.Context) (lanes Lanes, revision uint64, err error) {
	entry, err := c.bucket.Get(ctx, lanesKey)
	if errors.Is(err, queue.ErrNoKey) {
		return lanes, 0, nil
	}
	if err == nil {
		if err = json.Unmarshal(entry.Value, &lanes); err != nil {
			err = fmt.Errorf("bucket %s, key %s: %w", c.bucket.Name(), lanesKey, err)
		}
	}
	return lanes, entry.Revision, err
}

// SetLane sets a lane's weight. 0 removes it: the lane has order.DefaultWeight
// again.
func (c *Control) SetLane(ctx context.Context, lane string, weight int, by string) error {
	if err := order.CheckLane(lane); err != nil {
		return err
	}
	return queue.Again(ctx, func() error {
		lanes, revision, err := c.readLanes(ctx)
		if err != nil {
			return err
		}
		next := Lanes{Weights: maps.Clone(lanes.Weights), By: by, At: time.Now().UTC()}
		if next.Weights == nil {
			next.Weights = make(map[string]int, 1)
		}
		if delete(next.Weights, lane); weight > 0 {
			next.Weights[lane] = weight
		}
		_, err = c.bucket.Swap(ctx, lanesKey, next, revision)
		return err
	})
}
