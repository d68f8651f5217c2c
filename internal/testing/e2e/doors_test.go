package e2e

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/gateway"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/notify"
)

// told is a receiver of webhooks: the outcomes that it took, by order_no.
type told struct {
	*httptest.Server
	mu       sync.Mutex
	outcomes map[string]string
}

func startTold(t *testing.T) *told {
	r := &told{outcomes: make(map[string]string)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *told) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var event struct {
		Data struct {
			OrderNo string `json:"order_no"`
			Outcome string `json:"outcome"`
		} `json:"data"`
	}
	if json.NewDecoder(req.Body).Decode(&event) != nil || !strings.HasPrefix(req.Header.Get("Webhook-Signature"), "v1,") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[event.Data.OrderNo] = event.Data.Outcome
}

func (r *told) of(orderNo string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcomes[orderNo]
}

// followEvents opens the feed as server-sent events. seen waits for one that holds a text.
func followEvents(t *testing.T, url string) (seen func(text string)) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	return func(text string) {
		t.Helper()
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found && strings.Contains(data, text) {
				return
			}
		}
		t.Fatalf("the feed ended before %s: %v", text, lines.Err())
	}
}

// TestTheDoorsOnACluster: three servers with roles, and each program with its own role
// alone. An order comes by HTTP; its outcome is told by a long poll, the feed and a
// webhook, also when one of the servers is gone.
func TestTheDoorsOnACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	with := func(role string, more map[string]string) map[string]string {
		out := maps.Clone(c.settings[role])
		maps.Copy(out, more)
		return out
	}
	settings, _ := api(t)
	worker := startWorker(t, with("worker", settings))
	receiver := startTold(t)
	settings["ORDERPOST_GATEWAY_LISTEN"] = "127.0.0.1:0"
	settings["ORDERPOST_NOTIFY_URL"], settings["ORDERPOST_NOTIFY_SECRET"], settings["ORDERPOST_NOTIFY_BEGIN"] = receiver.URL, notify.NewSecret(), "oldest"
	door := start(t, "gateway", gateway.Run, with("gateway", settings))
	sender := start(t, "notify", orderpost.Run, with("notify", settings), "notify")
	url := doorOf(door)
	feed := followEvents(t, url+"/v1/outcomes?after=0")
	bring := func(orderNo string) {
		t.Helper()
		body := `{"order_no":"` + orderNo + `","timeout":30}`
		require.Eventually(t, func() bool { // a 503 or 504 says: send it again
			status, text := askDoor(t, "POST", url+"/v1/orders", "", body)
			if status < 300 {
				return true
			}
			require.GreaterOrEqual(t, status, 500, text)
			return false
		}, patience, pause)
		_, text := askDoor(t, "GET", url+"/v1/orders?order_no="+orderNo+"&wait=1m", "", "")
		require.Contains(t, text, `"outcome":"accepted"`)
		feed(`"order_no":"` + orderNo + `"`)
		require.Eventually(t, func() bool { return receiver.of(orderNo) == "accepted" }, patience, pause)
	}
	bring("A-1")
	require.Eventually(t, func() bool { // by somebody who may only look
		code, out, errOut := runProgram(t, orderpost.Run, c.settings["viewer"], "fleet")
		require.Equal(t, cli.ExitDone, code, errOut)
		return strings.Contains(out, "  gateway  ") && strings.Contains(out, "  notify  ") && !strings.Contains(out, "  waits  ")
	}, patience, pause)
	c.nodes[0].Shutdown()
	c.nodes[0].WaitForShutdown()
	bring("A-2")
	for _, p := range []*process{sender, door, worker} {
		require.Equal(t, cli.ExitDone, p.end(), p.errOut.String())
		require.NotContains(t, p.errOut.String(), "ermissions violation")
	}
}
