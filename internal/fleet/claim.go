package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// identityKey holds the Claim of the fleet's API.
	identityKey = "api"
	// takeoverPrefix begins the keys that record takeovers, one each.
	takeoverPrefix = "takeover."
)

// Claim is the fleet's identity, and who made it so.
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
	// Counts are what was stored of the former account at that time.
	Counts queue.Counts `json:"counts"`
}

// ErrNoIdentity is returned by Claimed if no worker has claimed an API.
var ErrNoIdentity = errors.New("no worker has worked with this broker yet")

// Claimed reads the fleet's identity. Error: ErrNoIdentity.
func (c *Control) Claimed(ctx context.Context) (*Claim, error) {
	entry, err := c.bucket.Get(ctx, identityKey)
	if errors.Is(err, queue.ErrNoKey) {
		return nil, ErrNoIdentity
	}
	if err != nil {
		return nil, err
	}
	claim := &Claim{revision: entry.Revision}
	if err := json.Unmarshal(entry.Value, claim); err != nil {
		return nil, fmt.Errorf("bucket %s, key %s: %w", c.bucket.Name(), identityKey, err)
	}
	return claim, nil
}

// ClaimIdentity records the API that the worker called by posts to as the fleet's,
// or checks that it is the fleet's. It replaces another one if that is certainly
// harmless: the account has the same label and another address, or nothing of it is
// stored and no other worker is present. Otherwise it returns *IdentityError.
func (c *Control) ClaimIdentity(ctx context.Context, want Identity, by string, log zerolog.Logger) error {
	want = want.Normal()
	return queue.Again(ctx, func() error {
		have, err := c.Claimed(ctx)
		switch {
		case errors.Is(err, ErrNoIdentity):
			have = &Claim{}
		case err != nil:
			return err
		case have.Identity.Normal() == want:
			return nil
		default:
			if err := c.mayReplace(ctx, have.Identity, want); err != nil {
				return err
			}
		}
		next := Claim{Identity: want, By: by, At: time.Now().UTC()}
		if have.revision > 0 {
			next.From = &have.Identity
		}
		_, err = c.bucket.Swap(ctx, identityKey, next, have.revision)
		if err == nil && next.From != nil {
			why := "nothing was stored for the former API: this worker takes over"
			if have.Same(want) {
				why = "the account of this fleet has another address from now on"
			}
			log.Info().Stringer("from", have.Identity).Stringer("to", want).Msg(why)
		}
		return err
	})
}

// mayReplace returns *IdentityError if a person must decide.
func (c *Control) mayReplace(ctx context.Context, have, want Identity) error {
	if have.Same(want) {
		return nil
	}
	counts, err := c.queue.Census.Count(ctx)
	if err != nil {
		return err
	}
	refusal := &IdentityError{Have: have, Want: want, Counts: counts}
	if !nothingStored(counts) {
		return refusal
	}
	if refusal.Present, err = Living(ctx, c.bucket, ""); err != nil {
		return err
	}
	if refusal.Present != "" {
		return refusal
	}
	return nil
}

// ErrClaimChanged is returned by TakeOver if somebody else changed the fleet's
// identity meanwhile.
var ErrClaimChanged = errors.New("somebody else changed the fleet's API meanwhile")

// TakeOver makes t.To the fleet's identity in place of from: a person's decision,
// which TakeOver records first.
func (c *Control) TakeOver(ctx context.Context, from *Claim, t Takeover) error {
	t.To = t.To.Normal()
	key := fmt.Sprintf("%s%d", takeoverPrefix, t.At.UnixNano())
	if _, err := c.bucket.Swap(ctx, key, t, 0); err != nil {
		return err
	}
	_, err := c.bucket.Swap(ctx, identityKey, Claim{Identity: t.To, By: t.By, At: t.At, From: &t.From}, from.revision)
	if errors.Is(err, settle.ErrStale) {
		return errors.Join(ErrClaimChanged, c.bucket.Delete(ctx, key, 0))
	}
	return err
}
