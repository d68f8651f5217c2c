package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// ErrSteered is returned if somebody else held, resumed or limited the fleet after
// the view on which a person decided.
var ErrSteered = errors.New("somebody else has steered the fleet meanwhile")

// Mark names what persons last told the fleet. It changes with each hold, resume
// and limit.
func (v *View) Mark() string {
	return fmt.Sprintf("%d.%d.%d", v.holdRevision, v.limitRevision, v.Resumed)
}

// HoldAsSeen is SetHold if the hold is still the one that a view shows. Error:
// ErrSteered.
func (c *Control) HoldAsSeen(ctx context.Context, h Hold, seen *View) error {
	return c.swap(ctx, holdKey, h, seen.holdRevision)
}

// ResumeAsSeen is Resume if the hold is still the one that a view shows. Error:
// ErrSteered.
func (c *Control) ResumeAsSeen(ctx context.Context, by string, seen *View) error {
	if err := c.EndHoldAsSeen(ctx, seen); err != nil {
		return err
	}
	return c.bucket.Put(ctx, resumeKey, Limit{By: by, At: time.Now().UTC()})
}

// EndHoldAsSeen is ResumeAsSeen without a person who has looked: the holds that the API's answers caused stay.
func (c *Control) EndHoldAsSeen(ctx context.Context, seen *View) error {
	if seen.holdRevision == 0 {
		return nil
	}
	return c.remove(ctx, holdKey, seen.holdRevision)
}

// LimitRevision names the limit that a person set last. It changes with each limit; 0 = none is set.
func (v *View) LimitRevision() uint64 { return v.limitRevision }

// SetLimitAfter is SetLimit if the limit still has a revision. Error: ErrSteered. An earlier try
// that set the very same limit was enough.
func (c *Control) SetLimitAfter(ctx context.Context, l *Limit, revision uint64) error {
	switch {
	case l == nil && revision == 0:
		return nil
	case l == nil:
		return c.remove(ctx, limitKey, revision)
	}
	err := c.swap(ctx, limitKey, l, revision)
	if !errors.Is(err, ErrSteered) {
		return err
	}
	now, readErr := c.Read(ctx)
	if readErr != nil {
		return readErr
	}
	if is := now.Limit; is != nil && is.PerSecond == l.PerSecond && is.By == l.By && is.At.Equal(l.At) {
		return nil
	}
	return err
}

func (c *Control) swap(ctx context.Context, key string, v any, revision uint64) error {
	_, err := c.bucket.Swap(ctx, key, v, revision)
	if errors.Is(err, settle.ErrStale) {
		return ErrSteered
	}
	return err
}

// remove deletes a key with this revision. A key that is gone was deleted by
// somebody else, or by an earlier try whose confirmation was lost.
func (c *Control) remove(ctx context.Context, key string, revision uint64) error {
	err := c.bucket.Delete(ctx, key, revision)
	if !errors.Is(err, settle.ErrStale) {
		return err
	}
	switch _, err := c.bucket.Get(ctx, key); {
	case errors.Is(err, queue.ErrNoKey):
		return nil
	case err != nil:
		return err
	default:
		return ErrSteered
	}
}

// RateText writes a rate, in requests per second, for people: four digits of a small one, and all
// before the point of a large one.
func RateText(perSecond float64) string {
	if perSecond >= 1000 {
		return strconv.FormatFloat(math.Round(perSecond), 'f', -1, 64)
	}
	return strconv.FormatFloat(perSecond, 'g', 4, 64)
}

// ReadLimit reads "50/s", "50", "600/m", "none" or "default" (nil).
func ReadLimit(text string) (*Limit, error) {
	switch text {
	case "default":
		return nil, nil
	case "none":
		return &Limit{}, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	per := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || per == 0 || order.CheckRate(n) != nil || n/per <= 0 {
		return nil, fmt.Errorf("%q is not a limit such as 50/s, 600/m, none or default", text)
	}
	return &Limit{PerSecond: n / per}, nil
}
