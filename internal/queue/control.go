package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// presencePrefix, identityKey: keys of the fleet's bucket.
const (
	presencePrefix = "presence."
	identityKey    = "api"
)

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

// Identity is the API that a fleet posts to. Its workers must agree on it:
// orders must not be spread over two accounts by a wrong setting.
type Identity struct {
	URL   string `json:"url"`
	Label string `json:"label,omitempty"`
}

// IdentityError is returned to a worker whose API is not the fleet's.
type IdentityError struct{ Have, Want Identity }

// Error names both and the way out.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("this worker posts to %s, but the orders of this broker belong to %s; nothing was sent. "+
		"Correct ORDERPOST_API_URL or ORDERPOST_ACCOUNT_LABEL, or give this installation streams of its own (ORDERPOST_STREAM_PREFIX, ORDERPOST_SUBJECT_PREFIX, ORDERPOST_BUCKET)",
		describeAPI(e.Want), describeAPI(e.Have))
}

func describeAPI(i Identity) string {
	if i.Label == "" {
		return i.URL
	}
	return i.URL + " (" + i.Label + ")"
}

// ClaimIdentity records the fleet's API, or checks that it is want. It returns
// *IdentityError where the fleet has another one.
func (q *Queue) ClaimIdentity(ctx context.Context, want Identity) error {
	want.URL = strings.TrimRight(want.URL, "/") // two spellings of one address
	if _, err := q.swapKey(ctx, identityKey, want, 0); !errors.Is(err, errStale) {
		return err
	}
	entry, err := q.getKey(ctx, identityKey)
	if err != nil {
		return q.bucketError(err)
	}
	var have Identity
	if err := json.Unmarshal(entry.Value(), &have); err != nil {
		return fmt.Errorf("bucket %s, key %s: %w", q.cfg.Bucket, identityKey, err)
	}
	if have != want {
		return &IdentityError{Have: have, Want: want}
	}
	return nil
}

// presenceKey keeps a worker's name within the characters of a key.
func presenceKey(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && plainToken(string(r)) && r != '%' {
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
	bucket := "KV_" + q.cfg.Bucket
	err := q.walk(ctx, bucket, "$KV."+q.cfg.Bucket+"."+presencePrefix+">", func(page []*rawMsg) error {
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
