package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// View is what the bucket says of the fleet at one moment.
type View struct {
	Hold     *Hold
	Limit    *Limit
	Throttle *Throttle
	// Resumed changes whenever a person resumes the fleet.
	Resumed uint64
	// Identity is the API that the fleet posts to; nil if nobody has claimed one.
	Identity *Claim
	// Incidents are what stops the whole fleet, by the name of the gate's block.
	Incidents map[string]*Incident
	// Lanes holds the weights of the waiting room's lanes.
	Lanes map[string]int
	// Members are the workers that have an entry, expired ones included. A worker
	// whose entry this version does not understand has its key as ID, and sees
	// nobody.
	Members []Presence
	// Unreadable names the keys that steer all and that this version does not
	// understand: they may ask that nobody sends.
	Unreadable []string

	holdRevision, limitRevision uint64 // 0 = the key has no value
}

// Present returns the members whose last sign of life is not older than
// PresenceTerm. The newest sign of life counts as the broker's present time, unless it
// is a minute old by this machine's clock: then no worker is present.
func (v *View) Present() []Presence {
	var now time.Time
	for _, p := range v.Members {
		if p.SeenAt.After(now) {
			now = p.SeenAt
		}
	}
	if time.Since(now) >= time.Minute {
		return nil
	}
	var present []Presence
	for _, p := range v.Members {
		if now.Sub(p.SeenAt) <= PresenceTerm {
			present = append(present, p)
		}
	}
	return present
}

// Read reads the bucket. With one replica the view is exact; with more, a follower
// may answer that lags. If the bucket was lost and made anew, Read first restores
// what the last view said: a person's hold must not end because somebody deleted
// the bucket.
func (c *Control) Read(ctx context.Context) (*View, error) {
	if err := c.bucket.RestoreIfReplaced(ctx, &c.read, c.restore); err != nil {
		return nil, err
	}
	entries, err := c.bucket.Last(ctx, controlPrefix+">", presencePrefix+">", identityKey)
	if err != nil {
		return nil, err
	}
	v := &View{Incidents: make(map[string]*Incident)}
	for _, e := range entries {
		v.take(e)
	}
	c.remember(v)
	return v, nil
}

// remember keeps what would have to be restored. The fleet's API stays known once
// it was read.
func (c *Control) remember(v *View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Hold, c.last.Limit, c.last.Lanes = v.Hold, v.Limit, v.Lanes
	if v.Identity != nil {
		c.last.Identity = v.Identity
	}
}

// restore writes what the last view said, unless another worker did so before.
func (c *Control) restore(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	put := func(key string, v any) error {
		_, err := c.bucket.Swap(ctx, key, v, 0)
		if errors.Is(err, settle.ErrStale) {
			return nil
		}
		return err
	}
	var errs []error
	if c.last.Identity != nil {
		errs = append(errs, put(identityKey, c.last.Identity))
	}
	if c.last.Hold != nil {
		errs = append(errs, put(holdKey, c.last.Hold))
	}
	if c.last.Limit != nil {
		errs = append(errs, put(limitKey, c.last.Limit))
	}
	if len(c.last.Lanes) > 0 {
		errs = append(errs, put(lanesKey, Lanes{Weights: c.last.Lanes, At: time.Now().UTC()}))
	}
	return errors.Join(errs...)
}

// take reads one entry. It ignores fields that it does not know. An entry that it
// does not understand, since a person or a newer version wrote it, must not let
// more through than its writer meant.
func (v *View) take(e queue.Entry) {
	switch key := e.Key; {
	case key == identityKey:
		v.Identity = readEntry[Claim](e)
	case key == holdKey:
		v.holdRevision = e.Revision
		if v.Hold = readEntry[Hold](e); v.Hold == nil {
			v.Unreadable = append(v.Unreadable, key)
		}
	case key == limitKey:
		v.limitRevision = e.Revision
		if v.Limit = readEntry[Limit](e); v.Limit == nil || v.Limit.PerSecond < 0 {
			v.Limit, v.Unreadable = nil, append(v.Unreadable, key)
		}
	case key == lanesKey:
		if lanes := readEntry[Lanes](e); lanes != nil {
			v.Lanes = lanes.Weights
		}
	case key == resumeKey:
		v.Resumed = e.Revision
	case key == throttleKey:
		if v.Throttle = readEntry[Throttle](e); v.Throttle != nil {
			v.Throttle.At, v.Throttle.Revision = e.At, e.Revision
		}
	case strings.HasPrefix(key, incidentPrefix):
		if i := readEntry[Incident](e); i != nil {
			i.Revision = e.Revision
			v.Incidents[strings.TrimPrefix(key, incidentPrefix)] = i
		}
	case strings.HasPrefix(key, presencePrefix):
		p, ok := readPresence(e)
		if !ok || p.ID == "" {
			p = Presence{ID: key, Worker: strings.TrimPrefix(key, presencePrefix), Version: "not understood by this version", SeenAt: e.At, key: key}
		}
		v.Members = append(v.Members, p)
	}
}

// readEntry gives nil for a value that is not what this version expects.
func readEntry[T any](e queue.Entry) *T {
	v := new(T)
	if json.Unmarshal(e.Value, v) != nil {
		return nil
	}
	return v
}
