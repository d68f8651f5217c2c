package fleet

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// TestTheBucketSpeaksAsEver: in a rolling upgrade workers of two versions share
// the bucket, so its keys and values stay as they are.
func TestTheBucketSpeaksAsEver(t *testing.T) {
	c := open(t, startBroker(t), "w-1")
	ctx, at := t.Context(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ms := int64(-12)
	require.NoError(t, c.Resume(ctx, "anna"))
	require.NoError(t, c.SetHold(ctx, Hold{Reason: "lunch", By: "anna", Since: at, For: time.Hour}))
	require.NoError(t, c.SetLimit(ctx, &Limit{PerSecond: 50, By: "anna", At: at}))
	require.NoError(t, c.bucket.Put(ctx, throttleKey, Throttle{Worker: "a1", For: 3 * time.Second}))
	require.NoError(t, c.Appear(ctx, Presence{Worker: "w-1", ID: "a1", Since: at, Version: "v1", InFlight: 2, Open: true, Reasons: []string{"r"}, Notes: []string{"n"},
		Sees: []string{"b2"}, Limit: 50, Share: 25, Rate: 7.5, Joined: true, ClockMS: &ms}))
	require.NoError(t, c.ClaimIdentity(ctx, api, "w-1", zerolog.Nop()))

	said := make(map[string]string)
	for _, prefix := range []string{controlPrefix, presencePrefix} {
		require.NoError(t, c.bucket.Walk(ctx, prefix, func(e queue.Entry) error {
			said[e.Key] = string(e.Value)
			return nil
		}))
	}
	require.Contains(t, said["fleet.resume"], `{"per_second":0,"by":"anna","at":"20`)
	delete(said, "fleet.resume")
	require.Equal(t, map[string]string{
		"fleet.hold":     `{"reason":"lunch","by":"anna","since":"2026-01-02T03:04:05Z","for_ns":3600000000000}`,
		"fleet.limit":    `{"per_second":50,"by":"anna","at":"2026-01-02T03:04:05Z"}`,
		"fleet.throttle": `{"worker":"a1","for_ns":3000000000}`,
		"presence.w-1.a1": `{"worker":"w-1","since":"2026-01-02T03:04:05Z","version":"v1","in_flight":2,"open":true,"reasons":["r"],"notes":["n"],` +
			`"id":"a1","sees":["b2"],"limit":50,"share":25,"rate":7.5,"joined":true,"clock_ms":-12}`,
	}, said)
	claim, err := c.bucket.Get(ctx, "api")
	require.NoError(t, err)
	require.Contains(t, string(claim.Value), `{"url":"https://api.example.com","label":"main","by":"w-1","at":"20`)
}

// TestWorkersShareTheirLooks: in a larger fleet each looks less often, and one that has found something has
// the others look.
func TestWorkersShareTheirLooks(t *testing.T) {
	s := startBroker(t)
	first, second := open(t, s, "w-1"), open(t, s, "w-2")
	require.Equal(t, time.Second, first.Spread(time.Second, time.Minute), "nobody was seen yet")
	looks := make(chan struct{}, 9)
	for _, n := range []*node{first, second} {
		m := newMember(n.Control, n.name)
		m.Look = func() { looks <- struct{}{} }
		n.runs(t, m)
	}
	for _, n := range []*node{first, second} {
		require.Eventually(t, func() bool { return n.Spread(time.Second, time.Minute) == 2*time.Second }, time.Minute, time.Millisecond)
	}
	require.Equal(t, 1500*time.Millisecond, first.Spread(time.Second, 1500*time.Millisecond))
	require.NoError(t, first.AskLooks(t.Context()))
	<-looks
	<-looks
}
