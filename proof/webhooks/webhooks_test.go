package webhooks

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/notify"
	"orderpost/internal/order"
)

// TestKilledSenders: two real processes, of which the one that sends is killed, another one
// starts, the broker is restarted, and the receiver fails now and then. It hears the last
// outcome of each order_no last, and verifies every event with the library.
func TestKilledSenders(t *testing.T) {
	b, secret := startBroker(t), notify.NewSecret()
	r, ledger := startReceiver(t, secret), openBooks(t, b)
	r.flakes(10)
	settings := map[string]string{"ORDERPOST_NATS_URL": b.address(), "ORDERPOST_NOTIFY_URL": r.URL, "ORDERPOST_NOTIFY_SECRET": notify.NewSecret() + "\n" + secret,
		"ORDERPOST_OPS_ADDR": "", "ORDERPOST_NOTIFY_BEGIN": "oldest", "ORDERPOST_LOG_FORMAT": "console", "ORDERPOST_LOG_LEVEL": "warn"}
	first, second := startSender(t, settings), startSender(t, settings)
	outcomes := order.Outcomes()
	some := func(n int) {
		for range n {
			ledger.put(rand.IntN(60), outcomes[rand.IntN(len(outcomes))])
		}
	}
	settled := func() {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, ledger.last, r.standing()) }, time.Minute, 20*time.Millisecond)
	}
	some(300)
	settled()
	some(100)
	first.kill() // whichever of them sends
	second.kill()
	some(100)
	third := startSender(t, settings)
	settled()
	some(50)
	b.restart()
	some(50)
	settled()
	r.flakes(0)
	require.Eventually(t, ledger.told, time.Minute, 20*time.Millisecond)
	third.end()
	requireOrder(t, r)
	require.Zero(t, r.unproven, "events that the library does not verify")

	before := r.count()
	fourth := startSender(t, settings)
	ledger.put(0, order.OutcomeAccepted)
	require.Eventually(t, ledger.told, time.Minute, 20*time.Millisecond)
	settled()
	fourth.end()
	require.Equal(t, before+1, r.count(), "after an orderly stop nothing is told twice")
	requireReplaysAreRefused(t, r, secret)
}

// requireOrder fails if an event with a lower position came after one with a higher position
// that was its order_no's last.
func requireOrder(t *testing.T, r *receiver) {
	t.Helper()
	highest, last := make(map[string]uint64), make(map[string]uint64)
	for _, e := range r.taken {
		highest[e.Data.OrderNo] = max(highest[e.Data.OrderNo], e.Data.Position)
		last[e.Data.OrderNo] = e.Data.Position
	}
	require.Equal(t, highest, last)
}

// requireReplaysAreRefused: by the library, an event that is recorded and sent again later, or whose
// body or id was changed, is not the sender's.
func requireReplaysAreRefused(t *testing.T, r *receiver, secret string) {
	t.Helper()
	by, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	header := r.last.Header
	require.NoError(t, by.Verify(r.lastBody, header))
	for name, change := range map[string]func(h http.Header) []byte{
		"an old timestamp": func(h http.Header) []byte {
			h.Set("webhook-timestamp", strconv.FormatInt(time.Now().Add(-6*time.Minute).Unix(), 10))
			return r.lastBody
		},
		"another id":   func(h http.Header) []byte { h.Set("webhook-id", "evt_other"); return r.lastBody },
		"another body": func(http.Header) []byte { return append([]byte(" "), r.lastBody...) },
	} {
		changed := header.Clone()
		body := change(changed)
		require.Error(t, by.Verify(body, changed), name)
	}
}
