package service_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
)

// TestSystemdIsTold runs a worker as a unit of Type=notify would be.
func TestSystemdIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "90000")
	var said []string
	until := func(text string) string {
		t.Helper()
		buf := make([]byte, 4096)
		for {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
			n, err := conn.Read(buf)
			require.NoError(t, err, "%q was not said, but %q", text, said)
			said = append(said, string(buf[:n]))
			if strings.Contains(said[len(said)-1], text) {
				return said[len(said)-1]
			}
		}
	}

	s := open(t, nil)
	require.Contains(t, until("READY=1"), "WATCHDOG=1")
	for _, message := range said[:len(said)-1] {
		require.Contains(t, message, "EXTEND_TIMEOUT_USEC=", "while it starts")
	}
	until("STATUS=posting; 0 of 8 slots in use")
	require.NoError(t, fleet.New(s.queue).SetHold(t.Context(), fleet.Hold{Reason: "tea", By: "anna", Since: time.Now()}))
	until("STATUS=not posting: hold: ")
	require.Equal(t, 1, strings.Count(strings.Join(said, "\n"), "READY=1"))
	s.stop()
	until("STOPPING=1")
	require.NoError(t, <-s.ended)
}
