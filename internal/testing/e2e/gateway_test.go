package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/gateway"
	workers "orderpost/internal/cli/worker"
)

// doorOf waits until a program has opened its HTTP door, and returns its address.
func doorOf(p *process) (url string) {
	p.t.Helper()
	rest := p.saw(&p.errOut, `"message":"the HTTP door is open"`)
	for line := range strings.Lines(p.errOut.String()) {
		var said struct{ URL, Message string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Message == "the HTTP door is open" {
			return said.URL
		}
	}
	p.t.Fatal(rest)
	return ""
}

func askDoor(t *testing.T, method, url, token, body string) (status int, answer string) {
	t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return askDoorWith(t, method, url, header, body)
}

func askDoorWith(t *testing.T, method, url string, header http.Header, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // no connection outlives the test
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(text)
}

// TestTheHTTPDoor of a worker is the whole installation of one host, and orderpost gateway
// is a door of its own at the same broker.
func TestTheHTTPDoor(t *testing.T) {
	settings, _ := api(t)
	settings["ORDERPOST_GATEWAY_LISTEN"] = "127.0.0.1:0"
	worker := startWorker(t, settings)
	url := doorOf(worker)
	status, text := askDoor(t, "POST", url+"/v1/orders", "", `{"order_no":"A-1","timeout":30}`)
	require.Equal(t, http.StatusCreated, status, text)
	_, text = askDoor(t, "GET", url+"/v1/orders?order_no=A-1&wait=1m", "", "")
	require.Contains(t, text, `"outcome":"accepted","created":"yes"`)

	entry, token := newClient(t)
	clients := filepath.Join(t.TempDir(), "clients.yaml")
	require.NoError(t, os.WriteFile(clients, []byte("clients:\n"+entry), 0o600))
	settings["ORDERPOST_GATEWAY_CLIENTS"] = clients
	door := start(t, "gateway", gateway.Run, settings)
	url = doorOf(door)
	status, _ = askDoor(t, "POST", url+"/v1/orders", "", `{"order_no":"B-1","timeout":30}`)
	require.Equal(t, http.StatusUnauthorized, status)
	status, text = askDoor(t, "POST", url+"/v1/orders", token, `{"order_no":"B-1","timeout":30}`)
	require.Equal(t, http.StatusCreated, status, text)
	_, text = askDoor(t, "GET", url+"/v1/orders?order_no=B-1&wait=1m", token, "")
	require.Contains(t, text, `"outcome":"accepted"`)
	status, _ = askDoor(t, "GET", url+"/v1/orders?order_no=A-1", token, "")
	require.Equal(t, http.StatusNotFound, status, "it is the client local's")
	require.Equal(t, cli.ExitDone, door.end())
	require.Equal(t, cli.ExitDone, worker.end())
	require.NotContains(t, door.errOut.String()+worker.errOut.String(), token)

	settings["ORDERPOST_GATEWAY_LISTEN"] = "0.0.0.0:0" // and no TLS
	for _, run := range []cli.RunFunc{gateway.Run, workers.Run} {
		code, _, errOut := runProgram(t, run, settings)
		require.Equal(t, cli.ExitUsage, code, errOut)
		require.Contains(t, errOut, "ORDERPOST_GATEWAY_BEHIND_PROXY=true if a proxy ends TLS")
	}
}

// newClient makes a client by its command.
func newClient(t *testing.T) (entry, token string) {
	t.Helper()
	code, entry, errOut := runProgram(t, gateway.Run, nil, "client", "shop", "--scopes", "submit,read")
	require.Equal(t, cli.ExitDone, code, errOut)
	lines := strings.Split(strings.TrimSpace(errOut), "\n")
	return entry, lines[len(lines)-1]
}

// TestTheHTTPDoorWithRoles stores, waits, follows and withdraws, in a process of its own with
// the role gateway and inside a worker with the role worker.
func TestTheHTTPDoorWithRoles(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, _ := api(t)
	settings["ORDERPOST_GATEWAY_LISTEN"] = "127.0.0.1:0"
	worker := startWorker(t, s.as("worker", settings))
	own := start(t, "gateway", gateway.Run, s.as("gateway", settings))
	doors := map[string]string{"worker": doorOf(worker), "gateway": doorOf(own)}
	for role, url := range doors {
		for _, no := range []string{role + "-1", role + "-2"} {
			status, text := askDoor(t, "POST", url+"/v1/orders", "", `{"order_no":"`+no+`","timeout":30}`)
			require.Equal(t, http.StatusCreated, status, "%s: %s", role, text)
			_, text = askDoor(t, "GET", url+"/v1/orders?order_no="+no+"&wait=1m", "", "")
			require.Contains(t, text, `"outcome":"accepted"`, role)
			status, _ = askDoor(t, "POST", url+"/v1/orders", "", `{"order_no":"`+no+`","timeout":30}`)
			require.Equal(t, http.StatusOK, status, role)
		}
		require.Eventually(t, func() bool { // it answers as soon as there is one
			_, text := askDoor(t, "GET", url+"/v1/outcomes?wait=10s&limit=1000", "", "")
			return strings.Contains(text, `"order_no":"`+role+`-2"`)
		}, patience, pause)
	}
	hold, _, errOut := runProgram(t, workers.Run, s.as("operator", settings), "hold")
	require.Equal(t, cli.ExitDone, hold, errOut)
	s.waitForNoPull(t)
	for role, url := range doors {
		for no, header := range map[string]http.Header{role + "-3": nil, role + "-4": {"Order-Lane": {"bulk"}},
			role + "-5": {"Order-Not-Before": {time.Now().Add(time.Hour).Format(time.RFC3339)}}} {
			status, text := askDoorWith(t, "POST", url+"/v1/orders", header, `{"order_no":"`+no+`","timeout":30}`)
			require.Equal(t, http.StatusCreated, status, "%s: %s", no, text)
			status, text = askDoor(t, "DELETE", url+"/v1/orders?order_no="+no, "", "")
			require.Equal(t, http.StatusOK, status, "%s: %s", no, text)
			require.Contains(t, text, `"outcome":"cancelled"`, no)
		}
	}
	for _, p := range []*process{worker, own} {
		require.Equal(t, cli.ExitDone, p.end())
		require.NotContains(t, p.errOut.String(), "ermissions violation")
	}
}
