package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/gateway"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/notify"
	"orderpost/internal/testing/patient"
)

// httpExample is a program of examples/http.
type httpExample struct {
	name     string
	needs    []string // programs
	command  []string
	receives bool
	environ  []string
}

func (e *httpExample) exec(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	all := append(e.command[1:len(e.command):len(e.command)], args...)
	cmd := exec.CommandContext(t.Context(), e.command[0], all...)
	cmd.Dir = "../../../examples/http"
	cmd.Env = append(os.Environ(), append(e.environ, "no_proxy=*", "NO_PROXY=*")...)
	return cmd
}

// submit runs the program to its end.
func (e *httpExample) submit(t *testing.T, door, key, body string) (said string, err error) {
	t.Helper()
	e.environ = append(e.environ, "ORDERPOST_URL="+door)
	out, err := e.exec(t, "submit", key, body).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// unreliable is a proxy before a door: it answers the first POST by 503 and the first GET by 429, and breaks off the
// answer to the second POST, which the door has stored then.
type unreliable struct {
	*httptest.Server
	posts, gets atomic.Int64
	refused     atomic.Int64 // Unix time in ms
	early       atomic.Bool  // the client came again before Retry-After was over
}

func startUnreliable(t *testing.T, door string) *unreliable {
	t.Helper()
	to, err := url.Parse(door)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	u := new(unreliable)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.early.CompareAndSwap(false, time.Now().UnixMilli()-u.refused.Load() < 990)
		refuse := func(status int) {
			u.refused.Store(time.Now().UnixMilli())
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
		}
		switch {
		case r.Method == http.MethodPost && u.posts.Add(1) == 1:
			refuse(http.StatusServiceUnavailable)
		case r.Method == http.MethodGet && u.gets.Add(1) == 1:
			refuse(http.StatusTooManyRequests)
		case r.Method == http.MethodPost && u.posts.Load() == 2:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// TestTheHTTPExamples runs the clients of each language that is installed: each brings an order, waits when it is told to, sends
// it again where the answer broke off, and learns the outcome. The receivers take what is signed, once, and nothing else.
func TestTheHTTPExamples(t *testing.T) {
	t.Parallel()
	settings, sandbox := api(t)
	startWorker(t, settings)
	entry, token := newClient(t)
	clients := filepath.Join(t.TempDir(), "clients.yaml")
	require.NoError(t, os.WriteFile(clients, []byte("clients:\n"+entry), 0o600))
	settings["ORDERPOST_GATEWAY_LISTEN"], settings["ORDERPOST_GATEWAY_CLIENTS"] = "127.0.0.1:0", clients
	door := doorOf(start(t, "gateway", gateway.Run, settings))
	secret := notify.NewSecret()
	settings["ORDERPOST_NOTIFY_SECRET"], settings["ORDERPOST_NOTIFY_BEGIN"] = secret, "oldest"
	classes := t.TempDir()
	for _, e := range []httpExample{
		{name: "go", command: []string{build(t, "examples/http")}, receives: true},
		{name: "node", needs: []string{"node"}, command: []string{"node", "orders.js"}, receives: true},
		{name: "python", needs: []string{"python3"}, command: []string{"python3", "orders.py"}, receives: true},
		{name: "java", needs: []string{"java", "javac"}, command: []string{"java", "-cp", classes, "Orders"}, receives: true},
		{name: "shell", needs: []string{"bash", "curl", "jq"}, command: []string{"bash", "orders.sh"}},
	} {
		t.Run(e.name, func(t *testing.T) {
			for _, program := range e.needs {
				if _, err := exec.LookPath(program); err != nil {
					t.Logf("no %s here: the example was not run", program)
					return
				}
			}
			if e.name == "java" { // java Orders.java would do so at every start
				out, err := exec.CommandContext(t.Context(), "javac", "-d", classes, "../../../examples/http/Orders.java").CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			e.environ = []string{"ORDERPOST_TOKEN=" + token, "WEBHOOK_SECRET=" + secret}
			order := func(n int) string { return fmt.Sprintf(`{"order_no":"%s %d","timeout":30}`, e.name, n) }
			submits := func(want, door, key, body string) {
				t.Helper()
				said, err := e.submit(t, door, key, body)
				require.NoError(t, err, said)
				require.Equal(t, want+": accepted, created: yes", lastLine(said))
			}
			between := startUnreliable(t, door)
			submits("known", between.URL, e.name+"-1", order(1))
			require.GreaterOrEqual(t, between.posts.Load(), int64(3))
			require.False(t, between.early.Load(), "it did not wait for Retry-After")
			submits("known", door, e.name+"-1", order(1))
			submits("stored", door, e.name+"-2", order(2))
			books := ledger(t, sandbox)
			require.Equal(t, []int{1, 1}, []int{books[e.name+" 1"].Created, books[e.name+" 2"].Created})
			said, err := e.submit(t, door, e.name+"-3", `{"order_no":"x"}`)
			require.Error(t, err, said)
			require.Contains(t, said, "invalid-order")
			if e.receives {
				e.receive(t, settings, secret)
			}
		})
	}
}

func lastLine(text string) string { return text[strings.LastIndex(text, "\n")+1:] }

// receive runs the program's receiver, and sends it good events and bad ones.
func (e *httpExample) receive(t *testing.T, settings map[string]string, secret string) {
	t.Helper()
	var out patient.Buffer
	cmd := e.exec(t, "receive", "0")
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "\n") }, patience, pause, "%s", &out)
	_, where, _ := strings.Cut(strings.TrimSpace(out.String()), "receiving at ")

	send := func(secret, id string, at time.Time, signed, body string) int {
		t.Helper()
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		require.NoError(t, err)
		timestamp := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + timestamp + "." + signed))
		status, _ := askDoorWith(t, http.MethodPost, where, http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp},
			"Webhook-Signature": {"v1,bm9uZQ== v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}, body)
		return status
	}
	now := time.Now()
	event := func(no string, position int) string {
		return fmt.Sprintf(`{"type":"order.settled","data":{"order_no":%q,"outcome":"rejected","position":%d,"response":"{\"outcome\":\"accepted\"}"}}`, no, position)
	}
	require.Equal(t, http.StatusUnauthorized, send(notify.NewSecret(), "e-1", now, event("bad", 1), event("bad", 1)), "another secret")
	require.Equal(t, http.StatusUnauthorized, send(secret, "e-1", now.Add(-time.Hour), event("bad", 1), event("bad", 1)), "an old event")
	require.Equal(t, http.StatusUnauthorized, send(secret, "e-1", now, event("good", 1), event("bad", 1)), "another body")
	status, _ := askDoorWith(t, http.MethodPost, where, nil, event("bad", 1))
	require.Equal(t, http.StatusUnauthorized, status, "no signature")
	for _, event := range []string{event("own", 5), event("own", 5), event("own", 6)} {
		require.Equal(t, http.StatusNoContent, send(secret, "e-1", now, event, event), "a repetition is taken, too")
	}
	require.Equal(t, http.StatusNoContent, send(secret, "e-2", now, event("own", 4), event("own", 4)), "an older event is taken, too")

	settings["ORDERPOST_NOTIFY_URL"] = where
	sender := start(t, "notify", orderpost.Run, settings, "notify")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "order.settled "+e.name+" 2 accepted") }, patience, pause, "%s", &out)
	require.Equal(t, cli.ExitDone, sender.end())
	require.Equal(t, 1, strings.Count(out.String(), "order.settled own rejected"))
	require.NotContains(t, out.String(), "bad")
}
