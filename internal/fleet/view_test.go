package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
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
