package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/patient"
	"orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

// childMark makes the test's own binary the HTTP door, so that its memory can be measured
// apart from the broker's and the clients'.
const childMark = "ORDERPOST_TEST_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		os.Exit(Run(context.Background(), nil, program.Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
	}
	patient.Main(m)
}

// TestWaits runs the benchmark with few waits, so that it does not rot.
func TestWaits(t *testing.T) { require.Positive(t, waits(t, 100)) }

// BenchmarkWaits is the memory of a door with as many idle waits as -benchtime says, half of
// them long polls, the other half feeds:
//
//	go test ./internal/program/gateway -run '^$' -bench Waits -benchtime 10000x
func BenchmarkWaits(b *testing.B) {
	if b.N == 1 {
		return // the benchmark is tried with one wait first
	}
	b.ReportMetric(waits(b, b.N), "MiB-rss")
}

// waits opens waits at a door, and returns its resident memory in MiB once that shrinks no more.
func waits(t testing.TB, n int) float64 {
	dir := t.TempDir()
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living = s.URL, s.Token, "w1", true, fleet.Living
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	url, pid := startDoor(t, dir)
	resp, err := http.Post(url+"/v1/orders", "application/json", strings.NewReader(`{"order_no":"A","timeout":30}`)) //nolint:noctx // the benchmark's own door
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	address := strings.TrimPrefix(url, "http://")
	for i := range n {
		c, err := net.Dial("tcp", address) //nolint:noctx // the benchmark's own door
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		request := "GET /v1/orders?order_no=A&wait=10m HTTP/1.1\r\nHost: localhost\r\n\r\n"
		if i%2 == 0 {
			request = "GET /v1/outcomes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
		}
		_, err = io.WriteString(c, request)
		require.NoError(t, err)
	}
	least, since := patient.Memory(t, pid, "VmRSS"), time.Now()
	require.Eventually(t, func() bool {
		if now := patient.Memory(t, pid, "VmRSS"); now < least*0.99 {
			least, since = now, time.Now()
		}
		return time.Since(since) > min(15*time.Second, time.Duration(n)*10*time.Millisecond)
	}, 5*time.Minute, 100*time.Millisecond)
	return patient.Memory(t, pid, "VmRSS")
}

// startDoor starts a door on the broker of a data folder, and returns its address.
func startDoor(t testing.TB, dir string) (url string, pid int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ORDERPOST_") }),
		childMark+"=1", "ORDERPOST_DATA_DIR="+dir, "ORDERPOST_GATEWAY_LISTEN=127.0.0.1:0", "ORDERPOST_OPS_ADDR=", "ORDERPOST_LOG_FORMAT=json", "HOME="+dir)
	says, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		var line struct{ URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.URL != "" {
			go func() { _, _ = io.Copy(io.Discard, says) }()
			return line.URL, cmd.Process.Pid
		}
	}
	t.Fatal("the door says no address")
	return "", 0
}
