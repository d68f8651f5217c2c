package fleet

import (
	"context"
	"time"

	"orderpost/internal/queue"
)

// controlPrefix begins the keys by which persons and workers steer the fleet.
const controlPrefix = "fleet."

// Keys below controlPrefix.
const (
	holdKey     = controlPrefix + "hold"
	limitKey    = controlPrefix + "limit"
	throttleKey = controlPrefix + "throttle"
	resumeKey   = controlPrefix + "resume"
	lanesKey    = controlPrefix + "lanes"
)

// Control reads and writes the fleet's keys in the queue's bucket. It is safe for
// concurrent use.
type Control struct {
	queue  *queue.Queue
	bucket *queue.Bucket
}

// New gives access to the fleet that works on a queue.
func New(q *queue.Queue) *Control { return &Control{queue: q, bucket: q.Bucket()} }

// Hold stops the fleet until a person resumes it, or until its time is over.
type Hold struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Since  time.Time `json:"since"`
	// Until is zero if only a person ends the hold.
	Until time.Time `json:"until,omitzero"`
}

// Limit is the rate limit of the whole fleet, set by a person.
type Limit struct {
	// PerSecond 0 = no limit.
	PerSecond float64   `json:"per_second"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
}

// Throttle is what one worker heard from the API: all must wait.
type Throttle struct {
	Worker string        `json:"worker"` // the ID of its stay
	For    time.Duration `json:"for_ns"`
	// At is the broker's time of the entry, and Revision its number.
	At       time.Time `json:"-"`
	Revision uint64    `json:"-"`
}

// SetHold holds the fleet. Error: queue.ErrSilent if the broker stores nothing.
func (c *Control) SetHold(ctx context.Context, h Hold) error {
	return c.bucket.PutSoon(ctx, holdKey, h)
}

// Resume ends the hold, and tells every worker that a person has looked: the
// workers also lift the holds that the API's answers caused.
func (c *Control) Resume(ctx context.Context, by string) error {
	if err := c.bucket.Delete(ctx, holdKey, 0); err != nil {
		return err
	}
	return c.bucket.Put(ctx, resumeKey, Limit{By: by, At: time.Now().UTC()})
}

// SetLimit sets the fleet's rate limit; with nil, the workers' settings decide
// again.
func (c *Control) SetLimit(ctx context.Context, l *Limit) error {
	if l == nil {
		return c.bucket.Delete(ctx, limitKey, 0)
	}
	return c.bucket.Put(ctx, limitKey, l)
}

// announceThrottle tells the fleet that the API asks for slower requests.
func (c *Control) announceThrottle(ctx context.Context, t Throttle) error {
	return c.bucket.Put(ctx, throttleKey, t)
}

// watch calls wake whenever somebody steers the fleet, until ctx ends.
func (c *Control) watch(ctx context.Context, wake func()) error {
	return c.bucket.Watch(ctx, controlPrefix, wake)
}
