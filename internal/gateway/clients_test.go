package gateway

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// TestFilesOfClients that are wrong are refused with every mistake, and without a line of
// theirs: it may hold a token.
func TestFilesOfClients(t *testing.T) {
	t.Parallel()
	hash := "sha256-" + strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"":              `it names nobody: write "clients:"`,
		"clients: [{":   "",
		"clients:\n- x": "",
		"clients:\n- {name: shop, scopes: [submit], tokens: [op_secret]}":                                          "tokens: number 1 is not sha256- and 64",
		"clients:\n- {name: shop, scopes: [submit], token: op_secret}":                                             `unknown field "token"`,
		"clients:\n- {name: 'a:b', scopes: [submit], tokens: [" + hash + "]}":                                      `name: "a:b" is not 1 to 64 letters`,
		"clients:\n- {name: shop, scopes: [admin], tokens: [" + hash + "]}":                                        `scopes: "admin" is none of submit, read, read:all, cancel`,
		"clients:\n- {name: shop, tokens: [" + hash + "], max_body: 99999999, rate: -1}":                           "rate: -1 is below 0",
		"clients:\n- &a {name: shop, scopes: [read], tokens: [" + hash + "]}\n- *a":                                `client 2: the name "shop" is there already`,
		"clients:\n- {name: shop, scopes: [read], tokens: [" + hash + ", " + hash + ", " + hash + "]}":             "tokens: 3; give one hash, or two",
		"clients:\n- {name: a, scopes: [read], tokens: [" + hash + "]}\n- {name: b, scopes: [], tokens: [x, y]}\n": "scopes: none",
		"clients:\n- {name: shop, scopes: [read], certificates: [op_secret]}":                                      "certificates: number 1 is not subject:CN=",
		"clients:\n- {name: shop, scopes: [read], certificates: ['dns:Shop.example']}":                             "a host in lower case",
		"clients:\n- {name: a, scopes: [read], certificates: ['dns:x', 'dns:x']}":                                  "the certificate \"dns:x\" is there already",
	} {
		_, err := readEntries([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "op_secret")
		require.NotContains(t, err.Error(), hash)
	}
	e, token, err := NewEntry("shop", []Scope{Submit, ReadAll})
	require.NoError(t, err)
	lines, err := e.YAML()
	require.NoError(t, err)
	require.NotContains(t, lines, token)
	entries, err := readEntries([]byte("clients:\n" + lines))
	require.NoError(t, err)
	require.Equal(t, []Entry{e}, entries)
	entries, err = readEntries([]byte("\ufeffclients:\n- {name: 007, scopes: [read], tokens: ['" + hash + "'], rate: 5}")) // an editor on Windows wrote it
	require.NoError(t, err)
	require.Equal(t, "007", entries[0].Name)
	require.Equal(t, 5, entries[0].Rate)
	_, err = readEntries([]byte("clients:\n" + lines + "---\nclients:\n" + lines))
	require.ErrorContains(t, err, "a second YAML document begins here")
}

// TestTheFileOfClientsIsReadAgain, and one that is wrong locks nobody out.
func TestTheFileOfClientsIsReadAgain(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	status := func(name string) int {
		return r.do("POST", "/v1/orders", "", "Authorization", bearer(name)).status
	}
	becomes := func(name string, want int) {
		t.Helper()
		require.Eventually(t, func() bool { return status(name) == want }, patience, 20*time.Millisecond)
	}
	require.Equal(t, http.StatusBadRequest, status("shop"))
	require.Equal(t, http.StatusUnauthorized, status("desk"))
	writeClients(t, path, map[string][]Scope{"desk": {Submit}})
	becomes("desk", http.StatusBadRequest)
	require.Equal(t, http.StatusUnauthorized, status("shop"))
	require.NoError(t, os.WriteFile(path, []byte("clients: [token-desk"), 0o600))
	require.Eventually(t, func() bool {
		return status("desk") == http.StatusBadRequest && strings.Contains(r.log.String(), "what was read before stays in force")
	}, patience, 20*time.Millisecond)
	require.Equal(t, http.StatusBadRequest, status("desk"))
	require.NotContains(t, r.log.String(), "token-")
	require.NoError(t, os.Remove(path))
	require.Equal(t, http.StatusBadRequest, status("desk"))
}

// TestSettings that would let strangers in, or show a token to the network, are refused.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, ""},
		{Config{Listen: "127.0.0.1:0", KeepAlive: time.Millisecond}, "ORDERPOST_GATEWAY_KEEPALIVE_TIMEOUT: 1ms; give at least a second"},
		{Config{Listen: "127.0.0.1:0"}, ""},
		{Config{Listen: "localhost:8080", Clients: "f"}, ""},
		{Config{Listen: "8080"}, "is not host:port"},
		{Config{Listen: ":8080"}, "set ORDERPOST_GATEWAY_CLIENTS"},
		{Config{Listen: ":8080", Clients: "f"}, "ORDERPOST_GATEWAY_BEHIND_PROXY=true"},
		{Config{Listen: "0.0.0.0:8080", Clients: "f", BehindProxy: true}, ""},
		{Config{Listen: "[::]:8080", Clients: "f", TLSCert: "c", TLSKey: "k"}, ""},
		{Config{Listen: "[::]:8080", Clients: "f", TLSCert: "c"}, "a certificate needs its key"},
		{Config{Listen: "127.0.0.1:8080", BehindProxy: true}, "name the clients"},
		{Config{Listen: "127.0.0.1:8080", Clients: "f", TLSClientCA: "a"}, "need a certificate of the door"},
	} {
		c.cfg.KeepAlive = cmp.Or(c.cfg.KeepAlive, time.Minute)
		if err := c.cfg.Validate(); c.want == "" {
			require.NoError(t, err, "%+v", c.cfg)
		} else {
			require.ErrorContains(t, err, c.want, "%+v", c.cfg)
		}
	}
	open := filepath.Join(t.TempDir(), "clients")
	writeClients(t, open, map[string][]Scope{"shop": {Submit}})
	require.NoError(t, os.Chmod(open, 0o666)) //nolint:gosec // that is the mistake
	_, err := Listen(t.Context(), Options{Config: Config{Listen: "127.0.0.1:0", KeepAlive: time.Minute, Clients: open}})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "chmod o-w")
}

// TestAFloodOfOneClient is refused with 429, and takes nothing from another.
func TestAFloodOfOneClient(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read}, "rival": {Read}}, func(e *Entry) {
		if e.Name == "rival" {
			e.Rate, e.Waiting, e.InFlight = 5, 1, 1
		}
	})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	as := func(name, path string) answer { return r.do("GET", path, "", "Authorization", bearer(name)) }
	require.Eventually(t, func() bool {
		a := as("rival", "/v1/orders?order_no=A")
		return a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "1"
	}, patience, time.Microsecond)
	require.Equal(t, http.StatusNotFound, as("shop", "/v1/orders?order_no=A").status)

	ended := make(chan struct{}, 1)
	wait := func() {
		_, _ = r.try("GET", "/v1/outcomes?wait=1m", nil, "Authorization", bearer("rival"))
		ended <- struct{}{}
	}
	go wait()
	require.Eventually(t, func() bool {
		select {
		case <-ended: // the rate was still used up
			go wait()
		default:
		}
		return r.open("outcomes") == 1
	}, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		a := as("rival", "/v1/outcomes?wait=1m")
		return a.status == http.StatusTooManyRequests && strings.Contains(a.text, "under way")
	}, patience, 10*time.Millisecond)
	r.Stop()
	<-ended
}

// TestABatchAtOnce: after a pause a client may use ten seconds' worth of its rate, and no more.
func TestABatchAtOnce(t *testing.T) {
	t.Parallel()
	l := newLimits(Entry{Name: "shop"})
	for n := range burstSeconds * defaultRate {
		require.Zero(t, l.admit(), n)
	}
	require.Eventually(t, func() bool { return l.admit() > 0 }, patience, time.Nanosecond)
}
