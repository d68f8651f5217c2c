package orderpost_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/console"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

const patience = 2 * time.Minute

var loginLink = regexp.MustCompile(`Log in once within 15 minutes: (\S+)`)

// TestConsole starts by its command, lets in by the link that it prints, and stops
// with 0 when it is told to.
func TestConsole(t *testing.T) {
	s := queuetest.Start(t)
	queuetest.Open(t, s, "w1").Close()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, says patient.Buffer
	code := make(chan int, 1)
	go func() {
		code <- console.Run(ctx, nil, map[string]string{"ORDERPOST_DATA_DIR": s.Dir, "ORDERPOST_CONSOLE_LISTEN": "127.0.0.1:0", "USER": "anna"}, nil, &out, &says)
	}()
	require.Eventually(t, func() bool { return loginLink.MatchString(says.String()) }, patience, 5*time.Millisecond, "%s", &says)
	require.Contains(t, says.String(), "Console: http://127.0.0.1:")
	require.Empty(t, out.String(), "the link is a message, and no output to process")

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	browser := http.Client{Jar: jar, Transport: transport}
	open := func(url string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := browser.Do(req)
		require.NoError(t, err)
		page, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return string(page)
	}
	link := loginLink.FindStringSubmatch(says.String())[1]
	page := open(link)
	require.Contains(t, page, "No worker is running, so no order is sent.")
	require.Contains(t, page, "anna")
	stop()
	select {
	case got := <-code:
		require.Equal(t, cli.ExitDone, got, "%s", &says)
	case <-time.After(patience):
		t.Fatal("the console does not stop")
	}
}

// TestExitCodesOfTheConsole: 2 for what a setting can mend, 4 for a broker out of reach.
func TestExitCodesOfTheConsole(t *testing.T) {
	for name, tc := range map[string]struct {
		environ map[string]string
		code    int
		says    string
	}{
		"open to the network": {map[string]string{"ORDERPOST_CONSOLE_LISTEN": "0.0.0.0:9465"}, cli.ExitUsage, "does not know who may log in"},
		"no such setting":     {map[string]string{"ORDERPOST_CONSOLE_IDLE_TIME": "soon"}, cli.ExitUsage, "ORDERPOST_CONSOLE_IDLE_TIME"},
		"no log level":        {map[string]string{"ORDERPOST_LOG_LEVEL": "loud"}, cli.ExitUsage, "loud"},
		"two users":           {map[string]string{"ORDERPOST_CONSOLE_VIEWER_NKEY_FILE": "a", "ORDERPOST_CONSOLE_VIEWER_CREDS": "b"}, cli.ExitUsage, "not both"},
		"no broker":           {map[string]string{"ORDERPOST_NATS_URL": "nats://127.0.0.1:1", "ORDERPOST_NATS_CONNECT_TIMEOUT": "100ms"}, cli.ExitUnreachable, "127.0.0.1:1"},
		"no data folder":      {map[string]string{"ORDERPOST_DATA_DIR": t.TempDir()}, cli.ExitUnreachable, "ORDERPOST_NATS_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			var says patient.Buffer
			require.Equal(t, tc.code, console.Run(t.Context(), nil, tc.environ, nil, io.Discard, &says), "%s", &says)
			require.Contains(t, says.String(), tc.says)
		})
	}
}

// TestAConsoleWithoutItsUsersFile is a mistake in the configuration.
func TestAConsoleWithoutItsUsersFile(t *testing.T) {
	s := queuetest.Start(t)
	url := strings.Replace(s.URL, "nats://", "nats://"+s.Token+"@", 1)
	var says patient.Buffer
	code := console.Run(t.Context(), nil, map[string]string{"ORDERPOST_NATS_URL": url, "ORDERPOST_CONSOLE_USERS": "/nowhere/users", "ORDERPOST_CONSOLE_LISTEN": "127.0.0.1:0"}, nil, io.Discard, &says)
	require.Equal(t, cli.ExitUsage, code, "%s", &says)
	require.Contains(t, says.String(), "/nowhere/users")
}
