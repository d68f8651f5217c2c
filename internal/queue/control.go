package queue

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"orderpost/internal/settle"
)

// presencePrefix begins keys of the fleet's bucket.
const presencePrefix = "presence."

// presenceTerm is how long a worker counts as present without saying so.
const presenceTerm = 6 * time.Second

// Presence is what a worker tells the fleet about itself.
type Presence struct {
	Worker   string    `json:"worker"`
	Since    time.Time `json:"since"`
	Version  string    `json:"version"`
	InFlight int       `json:"in_flight"`
	Open     bool      `json:"open"`
	Reasons  []string  `json:"reasons,omitempty"`
	// Notes are remarks about the API's answers that call for a person.
	Notes []string `json:"notes,omitempty"`
	// ID names this run of the worker in the fleet, and is new after each time
	// that it may have counted as gone.
	ID string `json:"id"`
	// Sees lists the other runs among which this worker divides the rate limit;
	// it keeps to its smaller share before it says so (R12).
	Sees []string `json:"sees,omitempty"`
	// Limit is the fleet's rate limit by this worker's settings, 0 = none; Share
	// is what it sends at most, in requests per second, 0 = no limit.
	Limit float64 `json:"limit,omitempty"`
	Share float64 `json:"share,omitempty"`
	// Rate is the requests per second that it sent of late (over ten seconds).
	Rate float64 `json:"rate"`
	// Joined: it has its share and may send.
	Joined bool `json:"joined"`
	// ClockMS is the API's clock minus the worker's, in milliseconds; nil where
	// nothing is known.
	ClockMS *int64 `json:"clock_ms,omitempty"`
	// SeenAt is the broker's time of the last sign of life.
	SeenAt time.Time `json:"-"`

	key string
}

// presenceKey keeps a worker's name within the characters of a key.
func presenceKey(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && settle.PlainToken(string(r)) && r != '%' {
			return r
		}
		return '_'
	}, name)
}

// Workers lists the workers that are present. It reads the bucket's stream
// itself: listing keys through a consumer would need the right to make
// consumers, which can be pointed at any subject.
func (q *Queue) Workers(ctx context.Context) ([]Presence, error) {
	var out []Presence
	err := q.walk(ctx, q.bucketStream(), "$KV."+q.cfg.Bucket+"."+presencePrefix+">", func(page []*settle.Message) error {
		for _, raw := range page {
			var p Presence
			if raw.Header.Get("KV-Operation") != "" || time.Since(raw.Time) > presenceTerm {
				continue
			}
			if json.Unmarshal(raw.Data, &p) != nil { // a newer version's: there, and that is all that we know
				p = Presence{Worker: strings.TrimPrefix(raw.Subject, "$KV."+q.cfg.Bucket+"."+presencePrefix)}
			}
			p.SeenAt = raw.Time
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		return nil, q.bucketError(err)
	}
	return out, nil
}
