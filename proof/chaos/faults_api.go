package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"orderpost/internal/sandbox"
)

// apiFaults change how the sandbox answers. Each changes other settings, so several can
// stand at once.
func apiFaults() []fault {
	change := func(name, what string, begin func(*sandbox.Settings, *rand.Rand), end func(s, usual *sandbox.Settings)) fault {
		return fault{name: name, what: what, weight: 1, least: time.Second, most: 6 * time.Second,
			inject: func(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
				usual := r.manners()
				return func(context.Context) error { return r.api.Update(func(s *sandbox.Settings) { end(s, &usual) }) },
					r.api.Update(func(s *sandbox.Settings) { begin(s, draw) })
			}}
	}
	return []fault{
		change("api-5xx", "half of the answers are 503, before or after the order was created",
			func(s *sandbox.Settings, _ *rand.Rand) { s.Faults.Unavailable, s.Faults.UnavailableAfter = 0.3, 0.3 },
			func(s, u *sandbox.Settings) {
				s.Faults.Unavailable, s.Faults.UnavailableAfter = u.Faults.Unavailable, u.Faults.UnavailableAfter
			}),
		change("api-lost-answers", "half of the requests get none, before or after the order was created",
			func(s *sandbox.Settings, _ *rand.Rand) { s.Faults.DropBefore, s.Faults.DropAfter = 0.3, 0.3 },
			func(s, u *sandbox.Settings) {
				s.Faults.DropBefore, s.Faults.DropAfter = u.Faults.DropBefore, u.Faults.DropAfter
			}),
		change("api-429", "half of the answers are 429 with a Retry-After of a second",
			func(s *sandbox.Settings, _ *rand.Rand) { s.Faults.TooMany = 0.5 },
			func(s, u *sandbox.Settings) { s.Faults.TooMany = u.Faults.TooMany }),
		change("api-slow", "a third of the answers take longer than the request timeout",
			func(s *sandbox.Settings, _ *rand.Rand) {
				s.Faults.Slow, s.Faults.SlowDelay = 0.3, 1500*time.Millisecond
			},
			func(s, u *sandbox.Settings) { s.Faults.Slow, s.Faults.SlowDelay = u.Faults.Slow, u.Faults.SlowDelay }),
		change("api-hostile", "a fifth of the answers are endless, dripping, a gzip bomb or garbage; the order is created",
			func(s *sandbox.Settings, draw *rand.Rand) {
				forms := []sandbox.GarbageForm{sandbox.GarbageMixed, sandbox.GarbageGzipBomb, sandbox.GarbageEndless, sandbox.GarbageDrip}
				s.Faults.Garbage, s.Faults.GarbageForm = 0.2, forms[draw.IntN(len(forms))]
			},
			func(s, u *sandbox.Settings) { s.Faults.Garbage = u.Faults.Garbage }),
		change("api-down", "connections are refused, or closed unanswered",
			func(s *sandbox.Settings, draw *rand.Rand) {
				s.Down = []sandbox.Down{sandbox.DropAll, sandbox.RefuseAll}[draw.IntN(2)]
			},
			func(s, _ *sandbox.Settings) { s.Down = sandbox.Up }),
		change("clock-jump", "the API's clock is beyond its window, ahead or behind",
			func(s *sandbox.Settings, draw *rand.Rand) {
				s.Skew = []time.Duration{-1, 1}[draw.IntN(2)] * (s.Window + time.Minute)
			},
			func(s, _ *sandbox.Settings) { s.Skew = 0 }),
		{name: "revoke-key", what: "the API does not know the key any more, and later again", weight: 1,
			least: time.Second, most: 5 * time.Second, inject: revokeKey},
	}
}

func revokeKey(_ context.Context, r *rig, _ *rand.Rand) (heal, error) {
	r.api.RevokeKey(apiKey)
	return func(context.Context) error { return r.api.AddKey(apiKey, apiSecret) }, nil
}
