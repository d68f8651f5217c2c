package cli_test

import (
	"encoding/json"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/testing/patient"
)

// TestTakeStandardLog: a server that sends more than its answer makes net/http write a line
// of its own, which is a line of the log then.
func TestTakeStandardLog(t *testing.T) {
	out := new(patient.Buffer)
	log, err := cli.NewLogger(out, "debug", "json", nil)
	require.NoError(t, err)
	cli.TakeStandardLog(log)
	t.Cleanup(func() { stdlog.SetOutput(os.Stderr); stdlog.SetFlags(stdlog.LstdFlags) })

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\nhello\r\n"))
		_, _ = conn.Read(make([]byte, 4096))
	}()
	client := &http.Client{Transport: new(http.Transport), Timeout: time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Eventually(t, func() bool { return strings.HasSuffix(out.String(), "\n") }, time.Minute, time.Millisecond)
	var line struct{ Level, Detail string }
	require.NoError(t, json.Unmarshal([]byte(out.String()), &line), out.String())
	require.Equal(t, "debug", line.Level)
	require.Contains(t, line.Detail, "Unsolicited response")
}
