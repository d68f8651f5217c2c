package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
)

// TestAnUploadWaitsInALane: a person chooses the lane, and a cancellation says how many
// orders it would withdraw from there, before it does.
func TestAnUploadWaitsInALane(t *testing.T) {
	r := newRig(t)
	c := fleet.New(r.worker)
	require.NoError(t, c.Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "w1", Since: time.Now().UTC(), Open: true, Joined: true}))
	require.NoError(t, c.SetLane(t.Context(), "night", 1, "anna"))
	b := r.loggedIn()
	a := b.upload(http.StatusOK, "march.csv", strings.NewReader("order_no,timeout\nA-1,30\nA-2,30\nA-3,30\n"))
	at := a.Request.URL.Path
	b.send(http.StatusOK, at+"/check", append(columnsForm(t, a.page), "batch", "march")...)
	require.Contains(t, text(b.settled(at)), "Lanes take turns by their weights.")
	require.Contains(t, text(b.send(http.StatusBadRequest, at+"/import", "lane", "at")), "cannot be a lane: the word begins the subjects of intents with a time. Nothing was imported. Go back")
	b.send(http.StatusOK, at+"/import", "lane", "night")
	b.settled(at)
	list, _, err := r.worker.Waiting.Now(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []any{"night", 3}, []any{list[0].Lane, list[0].Count})

	cancel := "/import/cancel?batch=" + list[0].Import
	require.Contains(t, text(b.open(http.StatusOK, cancel)), "Withdrawn now 3 orders. They end as cancelled, unless a worker posts them first.")
	r.besideWorker(func() {
		b.send(http.StatusOK, "/import/cancel", "batch", list[0].Import, "note", "wrong file")
		require.Eventually(t, func() bool {
			n, err := r.worker.Waiting.Total(t.Context())
			return err == nil && n == 0
		}, patience, 10*time.Millisecond)
	})
}
