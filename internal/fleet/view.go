package fleet

import (
	"context"
	"encoding/json"
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
	// Lanes holds the weights of the waiting room's lanes.
	Lanes map[string]int
	// Cancelled are the cancellations that are not done.
	Cancelled settle.Cancellations
	// Members are the workers that have an entry, expired ones included. A worker
	// whose entry this version does not understand has its key as ID, and sees
	// nobody.
	Members []Presence
	// Unreadable names the keys that steer all and that this version does not
	// understand: they may ask that nobody sends.
	Unreadable []string
	doors      []Door // expired ones included; only of Look
	// Now is the broker's time of the view.
	Now time.Time

	// StoresNothing is the broker's error if it answers and stores nothing; "" if it does,
	// or if nobody asked, see Look.
	StoresNothing string

	holdRevision, limitRevision, lookRevision uint64 // 0 = the key has no value
}

// age is how far the broker's time is from a worker's last sign of life. A worker that lives gives
// one each second, so it is small again a second after the broker's clock was set.
func (v *View) age(p Presence) time.Duration { return v.Now.Sub(p.SeenAt).Abs() }

// Present returns the members whose last sign of life is not older than PresenceTerm, by
// the broker's time: to tell people, and to pace. Members decide by membership, and a
// claim by living.
func (v *View) Present() []Presence {
	var present []Presence
	for _, p := range v.Members {
		if v.age(p) <= PresenceTerm {
			present = append(present, p)
		}
	}
	return present
}

// Read reads the bucket, and asks for the broker's time. With one replica the view is exact;
// with more, a follower may answer that lags.
func (c *Control) Read(ctx context.Context) (*View, error) {
	v, err := c.read(ctx)
	if err == nil {
		v.Now, err = c.bucket.Now(ctx)
	}
	return v, err
}

// read is Read without a time. It also reads further keys.
func (c *Control) read(ctx context.Context, keys ...string) (*View, error) {
	entries, err := c.bucket.Last(ctx, append(keys, controlPrefix+">", presencePrefix+">", identityKey)...)
	if err != nil {
		return nil, err
	}
	v := &View{}
	for _, e := range entries {
		v.take(e)
	}
	return v, nil
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
	case key == CancelledKey:
		var err error
		if v.Cancelled, err = ReadCancellations(e); err != nil {
			v.Unreadable = append(v.Unreadable, key)
		}
	case key == lookKey:
		v.lookRevision = e.Revision
	case key == resumeKey:
		v.Resumed = e.Revision
	case key == throttleKey:
		if v.Throttle = readEntry[Throttle](e); v.Throttle != nil {
			v.Throttle.Revision = e.Revision
		}
	case strings.HasPrefix(key, doorPrefix):
		if d, ok := readDoor(e); ok {
			v.doors = append(v.doors, d)
		}
	case strings.HasPrefix(key, presencePrefix):
		if p := readPresence(e); !p.Left {
			v.Members = append(v.Members, p)
		}
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
