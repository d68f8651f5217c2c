package fleet

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDrainHandsOver: a worker is stopped while its orders wait for their next
// attempt, which the API wants 29 s later; the other one takes them at once, and not after
// that time or AckWait.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	const orders = 16
	r := newRig(t, map[string]string{
		"ORDERPOST_ACK_WAIT": "30s", "ORDERPOST_DRAIN_TIMEOUT": "50s",
		"ORDERPOST_REQUEST_TIMEOUT": "10s", // nobody is asked twice because the machine is busy
	})
	var early atomic.Int32
	target, err := url.Parse(r.apiURL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && early.Add(1) <= orders {
			w.Header().Set("Retry-After", "29")
			w.WriteHeader(http.StatusTooEarly)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(front.Close)
	r.settings["ORDERPOST_API_URL"] = front.URL
	first := r.start("first")
	r.publish("A", orders)
	r.eventually(func() bool { return early.Load() == orders }, "each order was refused once, and waits")
	r.start("second")
	r.eventually(func() bool { return len(r.members()) == 2 }, "both are there")
	r.eventually(func() bool { return r.inHand() == orders }, "the first has all of them")

	stopped := time.Now()
	t.Logf("the worker ended %s after SIGTERM", first.End(patience).Round(time.Millisecond))
	var latest time.Duration
	for no, rec := range r.settled(orders) {
		require.Equal(t, "second", rec.Worker, no)
		require.Equal(t, 2, rec.Attempts, no)
		latest = max(latest, rec.LastAttemptAt.Sub(stopped))
	}
	t.Logf("the last order was asked for again %s after SIGTERM", latest.Round(time.Millisecond))
	require.Less(t, latest, 20*time.Second, "an order waited for its claim to end")
}
