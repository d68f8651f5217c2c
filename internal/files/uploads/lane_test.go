package uploads

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
)

// An upload waits in the lane bulk, as an import of enqueue does, in the lane that a
// person chose, or nowhere.
func TestUploadsTakeTurns(t *testing.T) {
	q := connect(t, startBroker(t))
	c := fleet.New(q)
	require.NoError(t, c.Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "w1", Since: time.Now().UTC(), Open: true, Joined: true}))
	require.NoError(t, c.SetLane(t.Context(), "night", 3, "anna"))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	put := func(name string, from int, o importer.Sending) Upload {
		return imported(t, d, checked(t, d, name, numbered(from, from+9)).ID, o)
	}
	for i, o := range []importer.Sending{{}, {Lane: "night"}, {Direct: true}} {
		u := put([]string{"bulk.csv", "night.csv", "direct.csv"}[i], 1+10*i, o)
		require.Equal(t, Done, u.Import.State, u.Import.Error)
	}
	waits := make(map[string]int)
	list, _, err := q.Waiting.Now(t.Context())
	require.NoError(t, err)
	for _, w := range list {
		waits[w.Lane] = w.Count
	}
	require.Equal(t, map[string]int{order.BulkLane: 10, "night": 10}, waits)
	stored, _ := counted(t, q)
	require.EqualValues(t, 10, stored)

	u := put("none.csv", 31, importer.Sending{Lane: "none"})
	require.Equal(t, Failed, u.Import.State)
	require.Contains(t, u.Import.Error, `unknown lane "none", there are: night, bulk`)
}

// TestAnotherTimeFails: to resume such an import would fail again. The page says what helps,
// without flags.
func TestAnotherTimeFails(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	u := checked(t, d, "times.csv", numbered(1, 3))
	require.Equal(t, Done, imported(t, d, u.ID, importer.Sending{NotBefore: time.Now().Add(time.Hour)}).Import.State)
	u = imported(t, d, u.ID, importer.Sending{NotBefore: time.Now().Add(2 * time.Hour)})
	require.Equal(t, Failed, u.Import.State)
	require.Contains(t, u.Import.Error, "3 orders are pending with the time")
	require.NotContains(t, u.Import.Error, "--")
}
