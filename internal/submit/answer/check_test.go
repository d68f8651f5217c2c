package answer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func TestCheckAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte("rules:\n  - name: known\n    when: status == 200 && body.code == 7\n    verdict: rejected\n    final: true\n"), 0o600))
	rules, err := LoadRules(file, Times{time.Second, time.Hour})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		raw    string
		status int
		want   func(t *testing.T, c Checked)
	}{
		"body alone": {`{"code":0}`, 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Accepted, c.Verdict)
			require.Equal(t, 200, c.Status)
			require.Equal(t, order.OutcomeAccepted, c.First)
			require.Equal(t, order.OutcomeAccepted, c.Doubted)
		}},
		"by rule": {"  {\"code\":7}\n", 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Rejected, c.Verdict)
			require.Equal(t, 1, c.Rule)
			require.Equal(t, 3, c.Line)
			require.Equal(t, "known", c.Detail)
			require.Equal(t, order.OutcomeRejected, c.First)
			require.Equal(t, order.OutcomeRejected, c.Doubted, "final")
		}},
		"refused by status": {`no`, 422, func(t *testing.T, c Checked) {
			require.Equal(t, order.OutcomeRejected, c.First)
			require.Equal(t, order.OutcomeUnknown, c.Doubted)
		}},
		"duplicate": {`{"code":300301,"error":"DUPLICATE_ORDER"}`, 409, func(t *testing.T, c Checked) {
			require.Equal(t, order.OutcomeRejected, c.First)
			require.Equal(t, order.OutcomeAccepted, c.Doubted)
		}},
		"a duplicate in words alone": {`{"code":300301,"message":"an order with this order_no exists"}`, 409, func(t *testing.T, c Checked) {
			require.Equal(t, order.Unsure, c.Verdict)
			require.Contains(t, c.Hold, `when: 'status == 409 && body.code == 300301'`)
			require.Contains(t, c.Hold, "its words suggest duplicate")
		}},
		"a 409 that may be anything": {`{"error":"insufficient_balance","message":"order was NOT created"}`, 409, func(t *testing.T, c Checked) {
			require.Equal(t, order.Unsure, c.Verdict)
			require.Contains(t, c.Hold, "insufficient_balance")
			require.Equal(t, order.OutcomeNone, c.Doubted, "it would be asked again, not recorded as accepted")
		}},
		"no evidence": {`{"id":1}`, 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Unsure, c.Verdict)
			require.Contains(t, c.Hold, "it neither says success nor repeats our order_no")
		}},
		"with our order_no": {`{"id":"ORDER-2026-1"}`, 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Accepted, c.Verdict)
		}},
		"another order's": {`{"order_no":"B-17"}`, 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Unsure, c.Verdict)
			require.Contains(t, c.Hold, "other_order_no: true")
		}},
		"as curl prints it": {"HTTP/2 429 \r\ncontent-type: application/json\r\nretry-after: 30\r\ncontent-length: 9999\r\n\r\n{\"m\":1}\r\n", 0, func(t *testing.T, c Checked) {
			require.Equal(t, 429, c.Status)
			require.Equal(t, order.Retry, c.Verdict)
			require.True(t, c.Throttle)
			require.Equal(t, 30*time.Second, c.Wait)
			require.Equal(t, order.OutcomeNone, c.First)
		}},
		"behind a proxy's head": {"HTTP/1.1 200 Connection established\r\n\r\nHTTP/2 422 \r\ncontent-type: application/json\r\n\r\n{\"m\":1}\r\n", 422, func(t *testing.T, c Checked) {
			require.Equal(t, 422, c.Status)
			require.Equal(t, order.OutcomeRejected, c.First)
		}},
		"behind interim heads": {"HTTP/1.1 200 Connection established\nVia: proxy\n\nHTTP/1.1 100 Continue\n\nHTTP/1.1 103 Early Hints\nLink: </x>\n\nHTTP/1.1 429 Slow\nRetry-After: 30\n\nno", 0, func(t *testing.T, c Checked) {
			require.Equal(t, 429, c.Status)
			require.Equal(t, 30*time.Second, c.Wait)
		}},
		"a body that begins as a head does": {"HTTP/1.1 422 No\n\nHTTP/2 is not allowed", 0, func(t *testing.T, c Checked) {
			require.Equal(t, 422, c.Status)
		}},
		"line feeds alone": {"\nHTTP/1.1 200 OK\nServer: x\n\n<html>", 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Unsure, c.Verdict)
			require.Contains(t, c.Hold, "ORDERPOST_RULES")
			require.Equal(t, order.OutcomeNone, c.First)
		}},
		"status line alone": {"HTTP/1.1 404 Not Found", 0, func(t *testing.T, c Checked) {
			require.Equal(t, order.Rejected, c.Verdict)
			require.Contains(t, c.Hold, "ORDERPOST_API_URL")
			require.Equal(t, order.OutcomeNone, c.First)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Check(rules, order.Resubmit, 5*time.Minute, []byte(c.raw), c.status, "ORDER-2026-1")
			require.NoError(t, err)
			c.want(t, got)
		})
	}
	got, err := Check(rules, order.Park, 5*time.Minute, nil, 500, "")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeUnknown, got.First)

	for raw, status := range map[string]int{"{}": 99, "HTTP/1.1 abc": 0, "HTTP/1.1 200 OK\n\n{}": 201, "HTTP/1.1": 0} {
		_, err := Check(rules, order.Resubmit, 5*time.Minute, []byte(raw), status, "")
		require.Error(t, err, raw)
	}
}
