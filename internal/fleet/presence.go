package fleet

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// presencePrefix begins the keys of workers: presence.<worker>.<id>.
const presencePrefix = "presence."

// PresenceTerm is how long a worker counts as present after another one first read its last
// sign of life. A worker that cannot give one stops sending before its term ends.
const PresenceTerm = 6 * time.Second

// Presence is what a worker tells the fleet about itself.
type Presence struct {
	Worker   string    `json:"worker"`
	Since    time.Time `json:"since"`
	Version  string    `json:"version"`
	InFlight int       `json:"in_flight"`
	Open     bool      `json:"open"`
	Reasons  []string  `json:"reasons,omitempty"`
	// ShutMS is for how long its gate has been closed, in milliseconds; 0 = it is open.
	ShutMS int64 `json:"shut_ms,omitempty"`
	// Notes are remarks about the API's answers and about clocks that call for a person.
	Notes []string `json:"notes,omitempty"`
	// ID names this stay of the worker in the fleet. The worker takes a new one
	// whenever the others may have counted it as gone. Beat numbers its signs of life.
	ID   string `json:"id"`
	Beat uint64 `json:"beat,omitempty"`
	// Sees lists those of the other workers among which this one divides the rate limit
	// that have not joined, by their IDs. It keeps to its smaller share before it says so (R12).
	Sees []string `json:"sees,omitempty"`
	// Limit is the fleet's rate limit by this worker's settings, 0 = none; Share
	// is what it sends at most, in requests per second, 0 = no limit.
	Limit float64 `json:"limit,omitempty"`
	Share float64 `json:"share,omitempty"`
	// Rate is the requests per second that it sent lately (over ten seconds).
	Rate float64 `json:"rate"`
	// Slots is how many orders it has in hand at most, and Posting how many of its
	// requests are at the API on average (over ten seconds).
	Slots   int     `json:"slots,omitempty"`
	Posting float64 `json:"posting,omitempty"`
	// P50MS and P99MS are how long the API took for its latest answers, in milliseconds;
	// 0 = there was none lately. SilentMS is for how long it has answered nothing while
	// requests were there.
	P50MS    float64 `json:"p50_ms,omitempty"`
	P99MS    float64 `json:"p99_ms,omitempty"`
	SilentMS int64   `json:"silent_ms,omitempty"`
	// Binds is what holds its rate; empty = nothing does.
	Binds Binds `json:"binds,omitempty"`
	// Cancelled is the version of the cancellations that it knows.
	Cancelled int64 `json:"cancelled,omitempty"`
	// Joined: it has its share and may send.
	Joined bool `json:"joined"`
	// ClockMS is the API's clock minus the worker's, in milliseconds; nil if the
	// worker does not know.
	ClockMS *int64 `json:"clock_ms,omitempty"`
	// Left: it is gone, and its entry is about to be erased. Nobody counts it.
	Left bool `json:"left,omitempty"`
	// SeenAt is the broker's time of the last sign of life: for people, workers do not decide by it.
	SeenAt time.Time `json:"-"`

	key      string // that it was read from; "" if it was not read
	revision uint64 // of the entry
}

// presenceKey is the key of one stay of a worker.
func presenceKey(p Presence) string {
	if p.key != "" {
		return p.key
	}
	return presencePrefix + keyToken(p.Worker) + "." + keyToken(p.ID)
}

// keyToken replaces each character that a key cannot hold.
func keyToken(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && settle.PlainToken(string(r)) && r != '%' {
			return r
		}
		return '_'
	}, name)
}

// readPresence reads a worker's entry. A worker whose entry this version does not understand,
// because a newer version wrote it, is present nevertheless.
func readPresence(e queue.Entry) (p Presence) {
	if json.Unmarshal(e.Value, &p) != nil || p.ID == "" {
		p = Presence{ID: e.Key, Worker: strings.TrimPrefix(e.Key, presencePrefix), Version: "not understood by this version"}
	}
	p.SeenAt, p.key, p.revision = e.At, e.Key, e.Revision
	return p
}

// Appear tells the fleet about this worker, and returns when the broker has
// confirmed it.
func (c *Control) Appear(ctx context.Context, p Presence) error {
	return c.bucket.Put(ctx, presenceKey(p), p)
}

// Remove takes a worker off the list. A worker that nobody removes expires.
//
// A broker that is killed right after may know the entry again, though it confirmed that it
// erased it (nats-server 2.15, in a stream with a limit of messages a subject). So what it
// knows again says that the worker left.
func (c *Control) Remove(ctx context.Context, p Presence) error {
	key := presenceKey(p)
	_ = c.bucket.Put(ctx, key, Presence{Worker: p.Worker, ID: p.ID, Left: true}) // a full bucket may still erase
	return c.bucket.Erase(ctx, key)
}

// Workers lists the workers that are present by the broker's time, as View.Present does.
func (c *Control) Workers(ctx context.Context) ([]Presence, error) {
	v, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	return v.Present(), nil
}

// livingPause is the time between two looks of Living.
const livingPause = 250 * time.Millisecond

// Living names a worker other than self that gives a sign of life while it looks, whatever the clocks
// say; "" if there is none. While somebody is listed, it looks for up to PresenceTerm: a worker
// that was killed is listed for a while. It is meant for queue.Config.Living.
func Living(ctx context.Context, b *queue.Bucket, self string) (name string, err error) {
	seen := make(map[string]uint64)
	for began := time.Now(); ; {
		first, listed := len(seen) == 0, 0
		err := b.Walk(ctx, presencePrefix, func(e queue.Entry) error {
			p := readPresence(e)
			if p.Left || p.Worker == self {
				return nil
			}
			if !first && seen[e.Key] != e.Revision {
				name = p.Worker
			}
			seen[e.Key] = e.Revision
			listed++
			return nil
		})
		if err != nil || name != "" || listed == 0 || time.Since(began) > PresenceTerm {
			return name, err
		}
		if err := settle.Sleep(ctx, livingPause); err != nil {
			return "", err
		}
	}
}
