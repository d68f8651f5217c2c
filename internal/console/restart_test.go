package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestBrokerRestartsWhileAPageIsOpen: the page says that the broker is away and
// shows what it knew; an act is refused in a sentence; the page goes on by itself.
func TestBrokerRestartsWhileAPageIsOpen(t *testing.T) {
	r := newRig(t)
	r.settles("B-1", answered(order.Rejected, 422, "rule 2", ""))
	b := r.loggedIn()
	require.Eventually(t, func() bool { return strings.Contains(text(b.open(http.StatusOK, "/")), "Dead letters 1") }, patience, 10e6)
	r.broker.Stop()
	refresh := http.Header{"Hx-Request": {"true"}, "Hx-Current-Url": {b.base + "/"}}
	b.header = refresh
	require.Eventually(t, func() bool {
		page := text(b.open(http.StatusOK, "/"))
		return strings.Contains(page, "The broker is out of reach since ") && strings.Contains(page, "Dead letters 1")
	}, patience, 50e6)
	b.header = http.Header{}
	for _, path := range []string{"/order?no=B-1", "/journal"} {
		require.Contains(t, text(b.open(http.StatusServiceUnavailable, path)), "The broker is out of reach")
	}
	require.Contains(t, text(b.send(http.StatusServiceUnavailable, "/letters/act", "act", "replay", "which", "all", "seen", "1")), "The broker is out of reach")
	require.Contains(t, text(b.open(http.StatusServiceUnavailable, "/fleet/hold")), "The broker is out of reach, so the console cannot say or do anything about orders now.")

	r.broker.Restart(t)
	b.header = refresh
	require.Eventually(t, func() bool {
		page := text(b.open(http.StatusOK, "/"))
		return !strings.Contains(page, "The broker is out of reach") && strings.Contains(page, "Dead letters 1")
	}, patience, 50e6)
	b.header = http.Header{}
	require.Contains(t, text(b.confirmed(http.StatusOK, "/fleet/hold")), "The fleet is held.")
}
