package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/testing/patient"
)

// patience is how long a test waits for a demo.
const patience = time.Minute

// TestConsoleDemo: one command, a link, and a page on which orders come in and are
// settled until it is stopped.
func TestConsoleDemo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(file, []byte("order_no,timeout,item\nA-1,30,pump\nA-2,30,pump\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var says patient.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{file, "--console", "--listen", "127.0.0.1:0"}, map[string]string{"USER": "anna"}, nil, io.Discard, &says)
	}()
	link := regexp.MustCompile(`minutes: (\S+)`)
	require.Eventually(t, func() bool { return link.MatchString(says.String()) }, patience, 5*time.Millisecond, "%s", &says)
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
		defer func() { _ = resp.Body.Close() }()
		page, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(page)
	}
	entry := link.FindStringSubmatch(says.String())[1]
	require.Contains(t, open(entry), "Log out")
	base, _, _ := strings.Cut(entry, "/login")
	for _, no := range []string{"A-2", "LIVE-00002"} {
		require.Eventually(t, func() bool { return strings.Contains(open(base+"/order?no="+no), "Settled: ") }, patience, 100*time.Millisecond, no)
	}
	require.Eventually(t, func() bool { return strings.Contains(open(base+"/fleet"), "demo-worker") }, patience, 100*time.Millisecond)
	stop()
	select {
	case got := <-code:
		require.Equal(t, cli.ExitDone, got, "%s", &says)
	case <-time.After(patience):
		t.Fatal("the demo does not stop")
	}
	require.NotContains(t, says.String(), "interrupted")
	require.NotContains(t, says.String(), "waiting room", "the import came before the worker")
}

// TestConsoleDemoRefuses what makes no sense.
func TestConsoleDemoRefuses(t *testing.T) {
	var says patient.Buffer
	require.Equal(t, cli.ExitUsage, Run(t.Context(), []string{"--console", "--json"}, map[string]string{}, nil, io.Discard, &says))
	require.Contains(t, says.String(), "there is no summary")
	require.Equal(t, cli.ExitUsage, Run(t.Context(), []string{"--console", "--listen", "0.0.0.0:9465"}, map[string]string{}, nil, io.Discard, &says))
	require.Contains(t, says.String(), "can be reached from other machines")
}
