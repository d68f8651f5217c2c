package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFleetPostsToOneAPI(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	api := Identity{URL: "https://api.example.com", Label: "main"}
	require.NoError(t, a.ClaimIdentity(t.Context(), api))
	require.NoError(t, b.ClaimIdentity(t.Context(), api))
	require.NoError(t, b.ClaimIdentity(t.Context(), Identity{URL: "https://api.example.com/", Label: "main"}), "the same address")
	for _, other := range []Identity{{URL: "https://test.example.com", Label: "main"}, {URL: api.URL, Label: "second"}, {URL: api.URL}} {
		err := b.ClaimIdentity(t.Context(), other)
		var identity *IdentityError
		require.ErrorAs(t, err, &identity)
		require.Equal(t, api, identity.Have)
		require.ErrorContains(t, err, "nothing was sent")
	}
}

func TestNamesOfWorkersBecomeKeys(t *testing.T) {
	for in, want := range map[string]string{"host-1.example:9": "host-1_example_9", "Größe *>": "Gr__e___", "a_B-9": "a_B-9"} {
		require.Equal(t, want, presenceKey(in))
	}
}
