package queue

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fromTheFuture adds to a JSON object what no version of today writes.
func fromTheFuture(t *testing.T, object []byte) []byte {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &fields))
	fields["future"], fields["future_list"] = json.RawMessage(`{"deep":{"er":1.5}}`), json.RawMessage(`[null,"x",{}]`)
	out, err := json.Marshal(fields)
	require.NoError(t, err)
	return out
}

// TestFleetOfANewerVersion: unknown fields are ignored; what cannot be read at
// all counts as present, and as a wish that nobody sends.
func TestFleetOfANewerVersion(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	put := func(key, value string) {
		_, err := q.kv.Put(t.Context(), key, []byte(value))
		require.NoError(t, err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	hold, err := json.Marshal(Hold{Reason: "maintenance", By: "anna", Since: now})
	require.NoError(t, err)
	put(holdKey, string(fromTheFuture(t, hold)))
	put(limitKey, `{"per_second":50,"at":"2026-01-01T00:00:00Z","burst":{"of":7}}`)
	presence, err := json.Marshal(Presence{ID: "1", Worker: "w1", Since: now, Sees: []string{"2"}, Joined: true})
	require.NoError(t, err)
	put(presencePrefix+"default.w1", string(fromTheFuture(t, presence)))
	put(fleetPrefix+"future", "whatever")
	f, err := q.ReadFleet(t.Context())
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
	f, err = q.ReadFleet(t.Context())
	require.NoError(t, err)
	require.Nil(t, f.Hold)
	require.Nil(t, f.Limit)
	require.ElementsMatch(t, []string{holdKey, limitKey}, f.Unreadable)
	require.Equal(t, presencePrefix+"default.w1", f.Members[0].ID)
	require.Empty(t, f.Members[0].Sees, "who cannot be understood has acknowledged nobody")

	require.NoError(t, q.Resume(t.Context(), "anna"))
	require.NoError(t, q.SetLimit(t.Context(), &Limit{PerSecond: 5}))
	f, err = q.ReadFleet(t.Context())
	require.NoError(t, err)
	require.Empty(t, f.Unreadable)
}
