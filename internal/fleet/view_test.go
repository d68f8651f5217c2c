package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"orderpost/internal/queue"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fromTheFuture adds to a JSON object what no version of today writes.
func fromTheFuture(object []byte) []byte {
	return fmt.Appendf(nil, `%s,"future":{"deep":{"er":1.5}},"future_list":[null,"x",{}]}`, bytes.TrimSuffix(object, []byte("}")))
}

// TestFleetOfANewerVersion: unknown fields are ignored; what cannot be read at
// all counts as present, and as a wish that nobody sends.
func TestFleetOfANewerVersion(t *testing.T) {
	q := open(t, startBroker(t), "a")
	put := func(key, value string) {
		require.NoError(t, q.bucket.Put(t.Context(), key, json.RawMessage(value)))
	}
	now := time.Now().UTC().Truncate(time.Second)
	hold, err := json.Marshal(Hold{Reason: "maintenance", By: "anna", Since: now})
	require.NoError(t, err)
	put(holdKey, string(fromTheFuture(hold)))
	put(limitKey, `{"per_second":50,"at":"2026-01-01T00:00:00Z","burst":{"of":7}}`)
	presence, err := json.Marshal(Presence{ID: "1", Worker: "w1", Since: now, Sees: []string{"2"}, Joined: true})
	require.NoError(t, err)
	put(presencePrefix+"default.w1", string(fromTheFuture(presence)))
	put(controlPrefix+"future", `"whatever"`)
	f, err := q.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, &Hold{Reason: "maintenance", By: "anna", Since: now}, f.Hold)
	require.InDelta(t, 50, f.Limit.PerSecond, 0)
	require.Empty(t, f.Unreadable)
	require.Len(t, f.Members, 1)
	require.Equal(t, []string{"2"}, f.Members[0].Sees)
	require.True(t, f.Members[0].Joined)

	put(holdKey, `{"since":{"era":"Reiwa"}}`)
	put(limitKey, `{"per_second":{"create":50}}`)
	put(presencePrefix+"default.w1", `{"id":{"run":1}}`)
	f, err = q.Read(t.Context())
	require.NoError(t, err)
	require.Nil(t, f.Hold)
	require.Nil(t, f.Limit)
	require.ElementsMatch(t, []string{holdKey, limitKey}, f.Unreadable)
	require.Equal(t, presencePrefix+"default.w1", f.Members[0].ID)
	require.Empty(t, f.Members[0].Sees, "who cannot be understood has acknowledged nobody")

	require.NoError(t, q.Resume(t.Context(), "anna"))
	require.NoError(t, q.SetLimit(t.Context(), &Limit{PerSecond: 5}))
	f, err = q.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, f.Unreadable)
}

// A person's hold does not end because somebody deleted the bucket.
func TestALostBucketIsMadeAnewWithWhatItSaid(t *testing.T) {
	s := startBroker(t)
	a, b := open(t, s, "a"), open(t, s, "b")
	require.NoError(t, a.claim(t, api))
	require.NoError(t, a.SetHold(t.Context(), Hold{By: "anna", Reason: "audit", Since: time.Now().UTC()}))
	require.NoError(t, a.SetLimit(t.Context(), &Limit{PerSecond: 7}))
	a.publish(t, "A-1")
	a.pull(t)
	for _, q := range []*node{a, b} {
		_, err := q.Read(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, jetStream(t, s).DeleteKeyValue(t.Context(), "ORDERPOST"))
	for _, q := range []*node{a, b} {
		_, err := q.Read(t.Context())
		require.Error(t, err)
	}
	require.NoError(t, b.ReviveBucket(t.Context()))
	for _, q := range []*node{a, b} {
		f, err := q.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, "anna", f.Hold.By)
		require.InDelta(t, 7, f.Limit.PerSecond, 0)
		require.Equal(t, api, f.Identity.Identity)
	}
	// Another part of the same program, which had not read the hold, may be the first one.
	forgetful := New(a.queue)
	require.NoError(t, jetStream(t, s).DeleteKeyValue(t.Context(), "ORDERPOST"))
	_, err := a.Read(t.Context())
	require.Error(t, err)
	require.NoError(t, b.ReviveBucket(t.Context()))
	_, err = forgetful.Read(t.Context())
	require.NoError(t, err)
	f, err := a.Read(t.Context())
	require.NoError(t, err)
	require.NotNil(t, f.Hold, "what it had read is restored all the same")
	require.Equal(t, "anna", f.Hold.By)

	// It is over when a person says so, and stays over.
	require.NoError(t, b.Resume(t.Context(), "anna"))
	f, err = a.Read(t.Context())
	require.NoError(t, err)
	require.Nil(t, f.Hold)
	// The delivered high-water mark is written again.
	var mark struct{ Seq uint64 }
	require.NoError(t, b.bucket.Walk(t.Context(), "seen.", func(e queue.Entry) error { return json.Unmarshal(e.Value, &mark) }))
	require.EqualValues(t, 1, mark.Seq)
}
