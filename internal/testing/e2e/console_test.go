package e2e

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/console"
	pages "orderpost/internal/console"
	"orderpost/internal/testing/patient"
)

var consoleURL = regexp.MustCompile(`Console: (http://\S+)`)

// TestViewersConnectionCannotWrite: the console of a broker with roles serves a
// viewer through the NATS user viewer, and everybody else through its own.
func TestViewersConnectionCannotWrite(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, _ := api(t)
	startWorker(t, s.as("worker", settings))
	users := filepath.Join(t.TempDir(), "users")
	var lines strings.Builder
	for _, role := range []string{"viewer", "operator"} {
		line, err := pages.UserLine(role, role, strings.Repeat(role, 3))
		require.NoError(t, err)
		lines.WriteString(line + "\n")
	}
	require.NoError(t, os.WriteFile(users, []byte(lines.String()), 0o600))
	viewer := s.settings["viewer"]
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var says patient.Buffer
	code := make(chan int, 1)
	go func() {
		code <- console.Run(ctx, nil, s.as("operator", map[string]string{"ORDERPOST_CONSOLE_LISTEN": "127.0.0.1:0", "ORDERPOST_CONSOLE_USERS": users,
			"ORDERPOST_CONSOLE_VIEWER_NKEY_FILE": viewer["ORDERPOST_NATS_NKEY_FILE"], "ORDERPOST_CONSOLE_VIEWER_INBOX_PREFIX": viewer["ORDERPOST_NATS_INBOX_PREFIX"]}), nil, &says, &says)
	}()
	require.Eventually(t, func() bool { return consoleURL.MatchString(says.String()) }, patience, pause, "%s", &says)
	base := consoleURL.FindStringSubmatch(says.String())[1]

	accounts := make(map[string]string) // by the connection's name
	conns, err := s.server.Connz(&server.ConnzOptions{Username: true})
	require.NoError(t, err)
	for _, c := range conns.Conns {
		accounts[c.Name] = c.Account
	}
	require.Equal(t, "VIEWERS", accounts["orderpost console viewers"], "%v", accounts)
	require.Equal(t, "OPERATORS", accounts["orderpost console"], "%v", accounts)

	for _, role := range []string{"viewer", "operator"} {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		browser := http.Client{Jar: jar}
		send := func(method, path string, form url.Values) int {
			req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(form.Encode()))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Sec-Fetch-Site", "same-origin")
			resp, err := browser.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}
		require.Equal(t, http.StatusOK, send(http.MethodPost, "/login", url.Values{"name": {role}, "password": {strings.Repeat(role, 3)}}))
		for _, path := range []string{"/", "/fleet", "/order?no=A-1", "/journal"} {
			require.Equal(t, http.StatusOK, send(http.MethodGet, path, nil), "%s as %s", path, role)
		}
		require.Equal(t, http.StatusOK, send(http.MethodPost, "/books", url.Values{}), "an audit reads, as %s", role)
		want := http.StatusForbidden
		if role == "operator" {
			want = http.StatusOK
		}
		require.Equal(t, want, send(http.MethodGet, "/fleet/hold", nil))
	}
	stop()
	require.Equal(t, cli.ExitDone, <-code, "%s", &says)
}
