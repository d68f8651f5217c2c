package fleet

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
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
	joinKey     = controlPrefix + "join" // only wakes the members
	lookKey     = controlPrefix + "look"
)

// Control reads and writes the fleet's keys in the queue's bucket. It is safe for
// concurrent use.
type Control struct {
	queue   *queue.Queue
	bucket  *queue.Bucket
	workers atomic.Int64 // that are present, as this process's member saw last
}

// New gives access to the fleet that works on a queue.
func New(q *queue.Queue) *Control { return &Control{queue: q, bucket: q.Bucket()} }

// Spread returns the time between two looks of this worker at what any worker of the fleet may look at: every,
// times the number of workers, but at most most. So a large fleet asks the broker no more often than a small one.
func (c *Control) Spread(every, most time.Duration) time.Duration {
	return max(every, min(most, every*time.Duration(c.workers.Load())))
}

// Hold stops the fleet while its entry is in the bucket: until a person resumes the fleet, or a
// worker has read the entry for the hold's time, by its monotonic time. No wall clock ends a hold.
type Hold struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Since is the time by the person's clock.
	Since time.Time `json:"since"`
	// For is how long the hold lasts, in nanoseconds; 0 = only a person ends it.
	For time.Duration `json:"for_ns,omitempty"`
}

// Lasts says for people how long the hold lasts.
func (h *Hold) Lasts() string {
	if h.For <= 0 {
		return "until resume"
	}
	text := h.For.String()
	for _, zero := range []string{"m0s", "h0m"} { // 30m0s, 2h0m
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return "for " + text
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
	// Revision is the number of the entry.
	Revision uint64 `json:"-"`
}

// SetHold holds the fleet. Error: queue.ErrSilent if the broker stores nothing.
func (c *Control) SetHold(ctx context.Context, h Hold) error {
	return c.bucket.PutSoon(ctx, holdKey, h)
}

// Prolong is SetHold, unless the hold that is set may last longer: whoever set it must learn
// that it ends. Error: *LongerHold.
func (c *Control) Prolong(ctx context.Context, h Hold) error {
	if h.For == 0 {
		return c.SetHold(ctx, h)
	}
	return queue.Again(ctx, func() error {
		now, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if !now.Prolongs(h) {
			return &LongerHold{Hold: now.Hold}
		}
		_, err = c.bucket.SwapSoon(ctx, holdKey, h, now.holdRevision)
		return err
	})
}

// LongerHold is returned by Prolong.
type LongerHold struct {
	Hold *Hold // nil = this version does not understand it
}

// Error says who holds the fleet, and what to do.
func (e *LongerHold) Error() string {
	const advice = ". A shorter hold would end it, so nothing was changed: "
	if e.Hold == nil {
		return "the fleet is held by an entry that this version does not understand" + advice + "hold without a time, or resume first"
	}
	text := "the fleet is held by " + cmp.Or(e.Hold.By, "somebody") + " since " + e.Hold.Since.UTC().Format("2006-01-02 15:04:05 UTC") + ", " + e.Hold.Lasts()
	if e.Hold.Reason != "" {
		text += " (" + e.Hold.Reason + ")"
	}
	return text + advice + "if it may end earlier, resume first, and hold again"
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

// AskLooks has every worker look at the streams: this one has found something.
func (c *Control) AskLooks(ctx context.Context) error {
	return c.bucket.Put(ctx, lookKey, struct{}{})
}
