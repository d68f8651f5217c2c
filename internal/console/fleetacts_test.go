package console

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
)

var stateField = regexp.MustCompile(`name="seen" value="([^"]*)"`)

// appear makes workers present.
func (r *rig) appear(inHand ...int) {
	r.Helper()
	c := fleet.New(r.worker)
	for i, n := range inHand {
		name := string(rune('a' + i))
		require.NoError(r, c.Appear(r.T.Context(), fleet.Presence{Worker: "w-" + name, ID: name, Since: time.Now().UTC(), InFlight: n, Open: true, Joined: true}))
	}
}

// confirmed opens a confirmation and sends its form.
func (b *browser) confirmed(status int, path string, pairs ...string) string {
	b.Helper()
	return b.send(status, path, append(pairs, "seen", b.state(path))...)
}

func (b *browser) state(path string) string {
	b.Helper()
	found := stateField.FindStringSubmatch(b.open(http.StatusOK, path))
	require.NotNil(b, found, path)
	return found[1]
}

// TestHoldAndResume: a person reads what will happen, and it happens.
func TestHoldAndResume(t *testing.T) {
	r := newRig(t)
	r.appear(40, 24)
	b := r.loggedIn()
	require.Contains(t, b.open(http.StatusOK, "/"), `href="/fleet/hold"`)
	asks := text(b.open(http.StatusOK, "/fleet/hold"))
	require.Contains(t, asks, "2 workers stop posting within a second. Requests that are at the API already are finished first; 64 orders are in hand.")
	view, err := fleet.New(r.worker).Read(t.Context())
	require.NoError(t, err)
	require.Nil(t, view.Hold, "the question alone changes nothing")

	page := text(b.confirmed(http.StatusOK, "/fleet/hold", "reason", "the API is <b>late</b>", "for", "1h"))
	require.Contains(t, page, "The fleet is held.")
	require.Contains(t, page, "Held by anna since ")
	require.Contains(t, page, "the API is &lt;b&gt;late&lt;/b&gt;")
	view, err = fleet.New(r.worker).Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "anna", view.Hold.By)
	require.Equal(t, time.Hour, view.Hold.For)
	require.Contains(t, text(b.open(http.StatusOK, "/fleet/hold")), "The fleet is held already, by anna since ")

	require.Contains(t, text(b.open(http.StatusOK, "/fleet/resume")), "It is held by anna since ")
	require.Contains(t, text(b.confirmed(http.StatusOK, "/fleet/resume")), "The fleet goes on.")
	view, err = fleet.New(r.worker).Read(t.Context())
	require.NoError(t, err)
	require.Nil(t, view.Hold)
	require.NotZero(t, view.Resumed)
	b.confirmed(http.StatusBadRequest, "/fleet/hold", "for", "soon")
}

// TestLimit shows what a limit means before it is set.
func TestLimit(t *testing.T) {
	r := newRig(t)
	r.appear(0, 0, 0, 0)
	b := r.loggedIn()
	require.Contains(t, text(b.open(http.StatusOK, "/fleet/limit")), "Requests per second of all workers together")
	require.Contains(t, text(b.open(http.StatusUnprocessableEntity, "/fleet/limit?limit=fast")), "&#34;fast&#34; is not a limit such as 50/s, 600/m, none or default.")
	require.Contains(t, text(b.open(http.StatusOK, "/fleet/limit?limit=600/m")), "4 workers send at most 10 requests per second together, about 2.5 each")
	require.Contains(t, text(b.open(http.StatusOK, "/fleet/limit?limit=2/m")), "4 workers send at most 0.03333 requests per second together, about 0.008333 each")
	require.Contains(t, text(b.confirmed(http.StatusOK, "/fleet/limit?limit=600/m", "limit", "600/m")), "The fleet&#39;s limit: 10 requests per second, set by anna at ")
	require.Contains(t, text(b.confirmed(http.StatusOK, "/fleet/limit?limit=default", "limit", "default")), "The fleet&#39;s limit: as the workers are set")
	require.Contains(t, text(b.open(http.StatusOK, "/fleet/limit?limit=none")), "Nothing bounds the rate then but the API itself.")
}
