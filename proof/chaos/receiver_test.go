package chaos

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/notify"
	"orderpost/internal/order"
)

// send posts an event, signed with a secret, and returns the answer's status.
func send(t *testing.T, r *receiver, secret, orderNo, outcome string, position int) int {
	t.Helper()
	body := fmt.Appendf(nil, `{"type":"order.settled","data":{"order_no":%q,"outcome":%q,"position":%d}}`, orderNo, outcome, position)
	wh, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	now := time.Now()
	signature, err := wh.Sign("msg", now, body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(), bytes.NewReader(body))
	require.NoError(t, err)
	for name, value := range map[string]string{"Webhook-Id": "msg", "Webhook-Timestamp": fmt.Sprint(now.Unix()), "Webhook-Signature": signature} {
		req.Header.Set(name, value)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// TestTheReceiverJudges: what was not told, what was told otherwise, and what was told in the
// wrong order, each by its order_no.
func TestTheReceiverJudges(t *testing.T) {
	r, err := newReceiver(1)
	require.NoError(t, err)
	t.Cleanup(r.close)
	never := func(m *manner) { m.fails, m.slow = 0, 0 }
	r.behave(never)
	for _, e := range []struct {
		no, outcome string
		position    int
	}{{"GOOD", "rejected", 1}, {"GOOD", "accepted", 4}, {"OLD", "rejected", 2}, {"BACK", "accepted", 6}, {"BACK", "accepted", 3}, {"BACK", "accepted", 6}} {
		require.Equal(t, http.StatusNoContent, send(t, r, r.secret, e.no, e.outcome, e.position))
	}
	r.behave(func(m *manner) { m.fails = 1 })
	require.Equal(t, http.StatusInternalServerError, send(t, r, r.secret, "NEVER", "accepted", 7))
	r.behave(never)
	r.close()
	require.NoError(t, r.open(), "at the same address")
	require.Equal(t, http.StatusUnauthorized, send(t, r, notify.NewSecret(), "NEVER", "accepted", 7))

	settled := make(map[string]*order.Record)
	for _, no := range []string{"GOOD", "OLD", "BACK", "NEVER"} {
		settled[no] = &order.Record{OrderNo: no, Word: order.OutcomeAccepted.String()}
	}
	var said strings.Builder
	require.Equal(t, 4, r.judge(settled, func(format string, args ...any) { _, _ = fmt.Fprintf(&said, format+"\n", args...) }))
	for _, want := range []string{"NEVER: ended as accepted, and the receiver of webhooks was told nothing", "OLD: ended as accepted, and the receiver of webhooks heard rejected last",
		"BACK: the receiver of webhooks heard an older outcome after a newer one", "1 webhooks do not bear the receiver's secret"} {
		require.Contains(t, said.String(), want)
	}
	require.Equal(t, &doorTally{Events: 6}, r.tally())
}
