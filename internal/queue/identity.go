package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

const (
	// identityKey holds the Claim of the fleet's API, in the fleet's bucket.
	identityKey = "api"
	// takeoverPrefix begins the keys that record takeovers, one each.
	takeoverPrefix = "takeover."
)

// Identity is the API that a fleet posts to. Its workers must agree on it:
// orders must not be spread over two accounts by a wrong setting.
type Identity struct {
	URL   string `json:"url"`
	Label string `json:"label,omitempty"`
}

// String names it for people.
func (i Identity) String() string {
	if i.Label == "" {
		return i.URL
	}
	return i.URL + " (" + i.Label + ")"
}

// Normal spells the address in one way.
func (i Identity) Normal() Identity {
	i.URL = strings.TrimRight(i.URL, "/")
	u, err := url.Parse(i.URL)
	if err != nil {
		return i
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	i.URL = u.String()
	return i
}

// Same says whether both are certainly one account: the same label, or the same
// address without a label. An account that has a label keeps it when its address
// changes.
func (i Identity) Same(j Identity) bool {
	i, j = i.Normal(), j.Normal()
	return i.Label == j.Label && (i.Label != "" || i.URL == j.URL)
}

// Contradicts says whether a running worker with identity i must stop sending
// when the fleet's is j: they are not the same, and not merely that one of them
// has a label for the address.
func (i Identity) Contradicts(j Identity) bool {
	unnamed := i.Label == "" || j.Label == ""
	return !i.Same(j) && !(unnamed && i.Normal().URL == j.Normal().URL)
}

// Claim is the fleet's identity, and how it came to be it.
type Claim struct {
	Identity
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at,omitzero"`
	From *Identity `json:"from,omitempty"`

	revision uint64
}

// Takeover is the record of a change of the fleet's identity, in the bucket.
type Takeover struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	From Identity  `json:"from"`
	To   Identity  `json:"to"`
	// Counts are what there was of the former account at that time.
	Counts Counts `json:"counts"`
}

// IdentityError is returned to a worker whose API is not the fleet's.
type IdentityError struct {
	Have, Want Identity
	// Counts are what there is of the account that the fleet has.
	Counts Counts
	// Present is a worker that runs with the fleet's identity; "" = none does.
	Present string
}

// Error names both and the ways out.
func (e *IdentityError) Error() string {
	there := fmt.Sprintf("%d pending orders, %d results and %d dead letters", e.Counts.Pending, e.Counts.Results, e.Counts.Letters)
	if e.Counts.Empty() {
		there = "the worker " + e.Present + " runs with it"
	}
	return fmt.Sprintf("this worker posts to %s, but the orders of this broker belong to %s (%s); nothing was sent. "+
		"If that is a mistake, correct ORDERPOST_API_URL or ORDERPOST_ACCOUNT_LABEL. "+
		"If this worker is to take these orders over, run: worker adopt (with this worker's settings). "+
		"To leave them where they are, give this worker another data folder (ORDERPOST_DATA_DIR) or, on a shared NATS, streams of its own (ORDERPOST_STREAM_PREFIX, ORDERPOST_SUBJECT_PREFIX, ORDERPOST_BUCKET)",
		e.Want, e.Have, there)
}

// Empty says that nothing is stored.
func (c Counts) Empty() bool { return c.Pending == 0 && c.Results == 0 && c.Letters == 0 }

// ErrNoIdentity is returned by Claimed where no worker has claimed an API.
var ErrNoIdentity = errors.New("no worker has worked with this broker yet")

// Claimed reads the fleet's identity. Error: ErrNoIdentity.
func (q *Queue) Claimed(ctx context.Context) (*Claim, error) {
	entry, err := q.getKey(ctx, identityKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, ErrNoIdentity
	}
	if err != nil {
		return nil, q.bucketError(err)
	}
	c := &Claim{revision: entry.Revision()}
	if err := json.Unmarshal(entry.Value(), c); err != nil {
		return nil, fmt.Errorf("bucket %s, key %s: %w", q.cfg.Bucket, identityKey, err)
	}
	return c, nil
}

// ClaimIdentity records the fleet's API, or checks that it is want. Another one
// is taken over where that is certainly harmless: the account has the same label
// and another address, or nothing of it is stored and no other worker is there.
// Else ClaimIdentity returns *IdentityError.
func (q *Queue) ClaimIdentity(ctx context.Context, want Identity) error {
	want = want.Normal()
	for {
		have, err := q.Claimed(ctx)
		switch {
		case errors.Is(err, ErrNoIdentity):
			have = &Claim{}
		case err != nil:
			return err
		case have.Identity.Normal() == want:
			return nil
		default:
			if err := q.mayTakeOver(ctx, have.Identity, want); err != nil {
				return err
			}
		}
		next := Claim{Identity: want, By: q.cfg.Name, At: time.Now().UTC()}
		if have.revision > 0 {
			next.From = &have.Identity
		}
		_, err = q.swapKey(ctx, identityKey, next, have.revision)
		if errors.Is(err, settle.ErrStale) {
			continue // another worker was first: look again
		}
		if err == nil && next.From != nil {
			why := "nothing was stored for the former API: this worker takes over"
			if have.Same(want) {
				why = "the account of this fleet has another address from now on"
			}
			q.log.Info().Stringer("from", have.Identity).Stringer("to", want).Msg(why)
		}
		return err
	}
}

func (q *Queue) mayTakeOver(ctx context.Context, have, want Identity) error {
	if have.Same(want) {
		return nil
	}
	counts, err := q.Count(ctx)
	if err != nil {
		return err
	}
	refusal := &IdentityError{Have: have, Want: want, Counts: counts}
	if !counts.Empty() {
		return refusal
	}
	if refusal.Present, err = q.livingWorker(ctx); err != nil {
		return err
	}
	if refusal.Present != "" {
		return refusal
	}
	return nil
}

// livingPause is the time between two looks at who is there.
const livingPause = 250 * time.Millisecond

// livingWorker names a worker that gives signs of life; this one has given none
// yet. One that was killed a moment ago gives none until its entry expires.
func (q *Queue) livingWorker(ctx context.Context) (string, error) {
	seen := make(map[string]time.Time)
	for {
		workers, err := q.Workers(ctx)
		if err != nil {
			return "", err
		}
		for _, w := range workers {
			key := w.Worker + " " + w.ID
			if before, known := seen[key]; known && w.SeenAt.After(before) {
				return w.Worker, nil
			}
			seen[key] = w.SeenAt
		}
		if len(workers) == 0 {
			return "", nil
		}
		if err := pause(ctx, livingPause); err != nil {
			return "", err
		}
	}
}

// ErrClaimChanged is returned by TakeOver where somebody else changed the
// fleet's identity meanwhile.
var ErrClaimChanged = errors.New("somebody else changed the fleet's API meanwhile")

// TakeOver makes t.To the fleet's identity in place of from: a person's
// decision, which is recorded first.
func (q *Queue) TakeOver(ctx context.Context, from *Claim, t Takeover) error {
	t.To = t.To.Normal()
	key := fmt.Sprintf("%s%d", takeoverPrefix, t.At.UnixNano())
	if _, err := q.swapKey(ctx, key, t, 0); err != nil {
		return err
	}
	_, err := q.swapKey(ctx, identityKey, Claim{Identity: t.To, By: t.By, At: t.At, From: &t.From}, from.revision)
	if errors.Is(err, settle.ErrStale) {
		return errors.Join(ErrClaimChanged, q.deleteKey(ctx, key))
	}
	return err
}
