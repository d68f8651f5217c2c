package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// fleetPrefix begins the keys by which persons and workers steer the fleet.
const fleetPrefix = "fleet."

// Keys below fleetPrefix.
const (
	holdKey     = fleetPrefix + "hold"
	limitKey    = fleetPrefix + "limit"
	throttleKey = fleetPrefix + "throttle"
	resumeKey   = fleetPrefix + "resume"
)

// PresenceTerm is how long a worker counts as present without saying so. It
// stops sending before that is over.
const PresenceTerm = presenceTerm

// Hold stops the fleet until it is taken back, or until its time is over.
type Hold struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Since  time.Time `json:"since"`
	// Until is zero where only a person ends the hold.
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
	Worker string        `json:"worker"`
	For    time.Duration `json:"for_ns"`
	// At is the broker's time of the entry, and Revision its number.
	At       time.Time `json:"-"`
	Revision uint64    `json:"-"`
}

// Fleet is the control bucket at one moment.
type Fleet struct {
	Hold     *Hold
	Limit    *Limit
	Throttle *Throttle
	// Resumed changes whenever a person resumes the fleet.
	Resumed uint64
	// Identity is the API that the fleet posts to; nil where nobody has claimed one.
	Identity *Claim
	// Troubles are the shared blocks of the gate, by name.
	Troubles map[string]*Trouble
	// Members are the workers that said so within the last terms, by the
	// broker's clock; expired ones are among them. One that speaks in a way that
	// this version does not understand is named by its key: it counts, and sees
	// nobody.
	Members []Presence
	// Unreadable names entries that steer all, and that this version does not
	// understand: what they ask for may be that nobody sends.
	Unreadable []string
}

// ReadFleet reads the bucket. With a single replica it is exact; with more, a
// follower may answer that is a moment behind. A bucket that was lost and made
// anew gets back what it said last before it is read.
func (q *Queue) ReadFleet(ctx context.Context) (*Fleet, error) {
	if err := q.remind(ctx); err != nil {
		return nil, q.bucketError(err)
	}
	f, err := q.readFleet(ctx)
	if err != nil {
		q.memory.noticed(err)
		return nil, q.bucketError(err)
	}
	q.memory.keep(f)
	return f, nil
}

func (q *Queue) readFleet(ctx context.Context) (*Fleet, error) {
	stream, prefix := q.bucketStream(), "$KV."+q.cfg.Bucket+"."
	req, err := json.Marshal(map[string]any{"multi_last": []string{prefix + fleetPrefix + ">", prefix + presencePrefix + ">", prefix + identityKey}})
	if err != nil {
		return nil, err
	}
	var f *Fleet
	err = q.patiently(ctx, func(ctx context.Context) error {
		f = &Fleet{Troubles: make(map[string]*Trouble)}
		return q.directGet(ctx, stream, req, func(msg *nats.Msg) (bool, error) {
			if status := directStatus(msg); status != "" {
				return endOfBatch(status, msg.Header)
			}
			raw, err := directMsg(msg)
			if err == nil {
				f.take(strings.TrimPrefix(raw.Subject, prefix), raw)
			}
			return false, err
		})
	})
	return f, err
}

// take reads one entry. Fields that it does not know are ignored. An entry that
// a person or a newer version wrote in a way that this one does not understand
// must not let more through than it was meant to.
func (f *Fleet) take(key string, raw *settle.Message) {
	if raw.Header.Get("KV-Operation") != "" {
		return // removed
	}
	switch {
	case key == identityKey:
		f.Identity = readEntry[Claim](raw)
	case key == holdKey:
		if f.Hold = readEntry[Hold](raw); f.Hold == nil {
			f.Unreadable = append(f.Unreadable, key)
		}
	case key == limitKey:
		if f.Limit = readEntry[Limit](raw); f.Limit == nil || f.Limit.PerSecond < 0 {
			f.Limit, f.Unreadable = nil, append(f.Unreadable, key)
		}
	case key == resumeKey:
		f.Resumed = raw.Seq
	case key == throttleKey:
		if f.Throttle = readEntry[Throttle](raw); f.Throttle != nil {
			f.Throttle.At, f.Throttle.Revision = raw.Time, raw.Seq
		}
	case strings.HasPrefix(key, troublePrefix):
		if t := readEntry[Trouble](raw); t != nil {
			t.Revision = raw.Seq
			f.Troubles[strings.TrimPrefix(key, troublePrefix)] = t
		}
	case strings.HasPrefix(key, presencePrefix):
		p := readEntry[Presence](raw)
		if p == nil || p.ID == "" {
			p = &Presence{ID: key, Worker: strings.TrimPrefix(key, presencePrefix), Version: "not understood by this version"}
		}
		p.SeenAt, p.key = raw.Time, key
		f.Members = append(f.Members, *p)
	}
}

func readEntry[T any](raw *settle.Message) *T {
	v := new(T)
	if json.Unmarshal(raw.Data, v) != nil {
		return nil
	}
	return v
}

// Appear tells the fleet about this worker, and returns when that is confirmed.
func (q *Queue) Appear(ctx context.Context, p Presence) error {
	return q.putKey(ctx, q.presenceOf(p.ID), p)
}

func (q *Queue) presenceOf(id string) string {
	return presencePrefix + presenceKey(q.cfg.Name) + "." + presenceKey(id)
}

// Depart takes this worker off the list. Without it, it expires.
func (q *Queue) Depart(ctx context.Context, id string) error {
	return q.forget(ctx, q.presenceOf(id))
}

// Forget removes the entry of a worker that expired long ago.
func (q *Queue) Forget(ctx context.Context, p Presence) error { return q.forget(ctx, p.key) }

// forget removes a key and leaves no marker behind.
func (q *Queue) forget(ctx context.Context, key string) error {
	return q.bucketError(q.purge(ctx, "KV_"+q.cfg.Bucket, "$KV."+q.cfg.Bucket+"."+key))
}

// purge removes every message of a subject.
func (q *Queue) purge(ctx context.Context, name, subject string) error {
	stream, err := q.stream(ctx, name)
	if err != nil {
		return err
	}
	return q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
	})
}

// SetHold holds the fleet.
func (q *Queue) SetHold(ctx context.Context, h Hold) error { return q.putKey(ctx, holdKey, h) }

// Resume takes the hold back, and tells every worker that a person has looked:
// holds caused by the API's answers are lifted, too.
func (q *Queue) Resume(ctx context.Context, by string) error {
	if err := q.deleteKey(ctx, holdKey); err != nil {
		return err
	}
	return q.putKey(ctx, resumeKey, Limit{By: by, At: time.Now().UTC()})
}

// SetLimit sets the fleet's rate limit; nil gives it back to the workers'
// settings.
func (q *Queue) SetLimit(ctx context.Context, l *Limit) error {
	if l == nil {
		return q.deleteKey(ctx, limitKey)
	}
	return q.putKey(ctx, limitKey, l)
}

// SayThrottle tells the fleet that the API asks for slower requests.
func (q *Queue) SayThrottle(ctx context.Context, t Throttle) error {
	return q.putKey(ctx, throttleKey, t)
}

func (q *Queue) putKey(ctx context.Context, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return q.bucketError(q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		_, err := q.kv.Put(ctx, key, data)
		return err
	}))
}

func (q *Queue) deleteKey(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	return q.bucketError(q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		return q.kv.Delete(ctx, key, opts...)
	}))
}

// getKey, as the other requests for one key here, does not wait for an answer that
// was lost for as long as its caller may have time: the client would.
func (q *Queue) getKey(ctx context.Context, key string) (entry jetstream.KeyValueEntry, err error) {
	err = q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		entry, err = q.kv.Get(ctx, key)
		return err
	})
	return entry, err
}

// swapKey writes a key as long as its revision is the given one (0: it is not
// there), and returns its new one. settle.ErrStale: somebody else wrote meanwhile.
func (q *Queue) swapKey(ctx context.Context, key string, v any, revision uint64) (uint64, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	repeated, written := false, uint64(0)
	err = q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		if revision == 0 {
			written, err = q.kv.Create(ctx, key, data)
		} else {
			written, err = q.kv.Update(ctx, key, data, revision)
		}
		stale := errors.Is(err, jetstream.ErrKeyExists) || errors.Is(writeError(err), settle.ErrStale)
		if stale && repeated { // perhaps by our own write, whose confirmation was lost
			var now jetstream.KeyValueEntry
			if now, err = q.kv.Get(ctx, key); err == nil && bytes.Equal(now.Value(), data) {
				written = now.Revision()
				return nil
			}
		}
		if stale && (err == nil || !q.passing(err)) {
			err = settle.ErrStale
		}
		repeated = true
		return err
	})
	if errors.Is(err, settle.ErrStale) {
		return 0, settle.ErrStale
	}
	return written, q.bucketError(err)
}

func (q *Queue) bucketError(err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && slices.Contains(fullCodes, api.ErrorCode) {
		return fmt.Errorf("bucket %s: the broker has no room to store it (%w); make room on its disk, and run the command again", q.cfg.Bucket, err)
	}
	return fmt.Errorf("bucket %s: %w", q.cfg.Bucket, err)
}

// WatchFleet calls wake whenever somebody steers the fleet, until ctx ends. It
// makes reaction quick, not certain: a watch may miss what happens while the
// broker restarts, so that the bucket must be read from time to time as well.
func (q *Queue) WatchFleet(ctx context.Context, wake func()) error {
	w, err := q.kv.Watch(ctx, fleetPrefix+">", jetstream.UpdatesOnly())
	if err != nil {
		return q.bucketError(err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.Updates():
			if !open {
				return nil
			}
			if e != nil {
				wake()
			}
		}
	}
}
