package orderpost

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/sandbox/authority"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

// childMark makes the test's own binary the HTTP door, so that its memory can be measured
// apart from the broker's and the clients'.
const childMark = "ORDERPOST_TEST_GATEWAY"

// TestWaits runs the benchmark with few waits, so that it does not rot.
func TestWaits(t *testing.T) { require.Positive(t, waits(t, 100)) }

// BenchmarkWaits is the memory of a door with as many idle waits over TLS as -benchtime says, half
// of them long polls, the other half feeds:
//
//	go test ./internal/cli/orderpost -run '^$' -bench Waits -benchtime 8000x
func BenchmarkWaits(b *testing.B) {
	if b.N == 1 {
		return // the benchmark is tried with one wait first
	}
	b.ReportMetric(waits(b, b.N), "MiB-rss")
}

// waits opens waits at a door, and returns its resident memory in MiB once that shrinks no more.
func waits(t testing.TB, n int) float64 {
	s := queuetest.Start(t)
	queuetest.Open(t, s, "w1")
	url, trusted, pid := startDoor(t, s.Dir)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: trusted}}
	t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Post(url+"/v1/orders", "application/json", strings.NewReader(`{"order_no":"A","timeout":30}`)) //nolint:noctx // the benchmark's own door
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	address := strings.TrimPrefix(url, "https://")
	for i := range n {
		c, err := tls.Dial("tcp", address, trusted) //nolint:noctx // the benchmark's own door
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

// startDoor starts a door on the broker of a data folder, and returns its address, and what its
// clients trust.
func startDoor(t testing.TB, dir string) (url string, trusted *tls.Config, pid int) {
	ca, err := authority.New("waits")
	require.NoError(t, err)
	pair, err := ca.Server()
	require.NoError(t, err)
	cert, key, err := authority.PEM(pair)
	require.NoError(t, err)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, cert, 0o600))
	require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	trusted = &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, trusted.RootCAs.AppendCertsFromPEM(ca.PEM))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ORDERPOST_") }),
		childMark+"=1", "ORDERPOST_DATA_DIR="+dir, "ORDERPOST_GATEWAY_LISTEN=127.0.0.1:0",
		"ORDERPOST_GATEWAY_TLS_CERT_FILE="+certFile, "ORDERPOST_GATEWAY_TLS_KEY_FILE="+keyFile, "ORDERPOST_OPS_ADDR=", "ORDERPOST_LOG_FORMAT=json", "HOME="+dir)
	says, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		var line struct{ URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.URL != "" {
			go func() { _, _ = io.Copy(io.Discard, says) }()
			return line.URL, trusted, cmd.Process.Pid
		}
	}
	t.Fatal("the door says no address")
	return "", nil, 0
}
