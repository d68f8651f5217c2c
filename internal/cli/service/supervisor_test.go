package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/ops"
)

// manager is systemd's end of NOTIFY_SOCKET.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// newManager listens on a socket and puts it into the environment, with a
// watchdog where period is above zero.
func newManager(t *testing.T, period time.Duration) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "")
	if period > 0 {
		t.Setenv("WATCHDOG_USEC", fmt.Sprint(period.Microseconds()))
	}
	return &manager{t, conn}
}

// next gives the lines of the next message.
func (m *manager) next() []string {
	m.t.Helper()
	require.NoError(m.t, m.conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	require.NoError(m.t, err)
	return strings.Split(string(buf[:n]), "\n")
}

// until reads messages up to the first one for which is says yes.
func (m *manager) until(is func(lines []string) bool) []string {
	m.t.Helper()
	for {
		if lines := m.next(); is(lines) {
			return lines
		}
	}
}

func TestTheWatchdogIsFedWhileLivezAnswers(t *testing.T) {
	systemd := newManager(t, 60*time.Millisecond)
	env := Env{Log: zerolog.Nop()}
	ctx, cancel := context.WithCancel(t.Context())
	view, err := startOperations(ctx, Config{OpsAddr: "127.0.0.1:0"}, env)
	require.NoError(t, err)
	stop := view.supervise(ctx, 5*time.Second)

	first := systemd.next()
	require.Equal(t, []string{"STATUS=not ready: starting", "EXTEND_TIMEOUT_USEC=60000000", "WATCHDOG=1"}, first, "a worker that starts and lives is waited for")
	require.Contains(t, systemd.next(), "WATCHDOG=1")

	view.stop() // /livez answers no more
	fed := func(lines []string) bool { return slices.Contains(lines, "WATCHDOG=1") }
	systemd.until(func(lines []string) bool { return !fed(lines) })
	for range 3 {
		require.False(t, fed(systemd.next()), "fed although /livez does not answer")
	}
	cancel()
	stopping := systemd.until(func(lines []string) bool { return slices.Contains(lines, "STOPPING=1") })
	require.Equal(t, []string{"STOPPING=1", "EXTEND_TIMEOUT_USEC=35000000"}, stopping, "ORDERPOST_DRAIN_TIMEOUT and the grace")
	stop()
}

// TestASystemdThatReadsNothing does not keep a worker from ending.
func TestASystemdThatReadsNothing(t *testing.T) {
	newManager(t, 3*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	said := &firstLine{line: make(chan string, 1)}
	view := &operations{log: zerolog.New(said), stopping: func() bool { return false }}
	stop := view.supervise(ctx, time.Second)
	require.Contains(t, <-said.line, "NOTIFY_SOCKET", "the queue of the socket is full")
	cancel()
	stop()
}

// firstLine keeps the first line of a log.
type firstLine struct{ line chan string }

func (f *firstLine) Write(p []byte) (int, error) {
	select {
	case f.line <- string(p):
	default:
	}
	return len(p), nil
}

func TestWatchdogPeriod(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
		bad       bool
	}{
		{"", "", 0, false},
		{"60000000", "", time.Minute, false},
		{"60000000", strconv.Itoa(os.Getpid()), time.Minute, false},
		{"60000000", "1", 0, false}, // another process's
		{"soon", "", 0, true},
		{"0", "", 0, true},
	} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		got, err := watchdogPeriod()
		require.Equal(t, c.want, got)
		require.Equal(t, c.bad, err != nil)
	}
}

func TestNobodyIsToldWithoutSystemd(t *testing.T) {
	systemd := newManager(t, time.Minute)
	t.Setenv("NOTIFY_SOCKET", "")
	view := &operations{stopping: func() bool { return false }}
	view.supervise(t.Context(), time.Second)()
	require.NoError(t, systemd.conn.SetReadDeadline(time.Now()))
	_, err := systemd.conn.Read(make([]byte, 1))
	require.Error(t, err, "something was sent")
}

func TestStatusLine(t *testing.T) {
	working := ops.Snapshot{Started: true, Connected: true, Slots: 8, Gate: ops.Gate{Open: true}}
	for want, change := range map[string]func(*ops.Snapshot){
		"posting; 3 of 8 slots in use": func(s *ops.Snapshot) { s.InFlight = 3 },
		"not ready: starting":          func(s *ops.Snapshot) { *s = ops.Snapshot{} },
		"draining; 2 orders in flight": func(s *ops.Snapshot) { s.Draining, s.InFlight = true, 2 },
		"not posting: credentials: the API refuses the key; held: shut": func(s *ops.Snapshot) {
			s.Gate = ops.Gate{Blocks: []ops.Block{{Name: "credentials", Reason: "the API refuses the key"}, {Name: "held", Stage: "shut"}}}
		},
		"posting; 0 of 8 slots in use; the queue is full": func(s *ops.Snapshot) { s.Store.Full = "the queue is full" },
		// What an API or a person says must not become a message to systemd.
		"not posting: hold: tea MAINPID=1 READY=1": func(s *ops.Snapshot) {
			s.Gate = ops.Gate{Blocks: []ops.Block{{Name: "hold", Reason: "tea\nMAINPID=1\rREADY=1"}}}
		},
	} {
		s := working
		change(&s)
		require.Equal(t, want, status(s))
	}
	long := working
	long.Gate = ops.Gate{Blocks: []ops.Block{{Name: "hold", Reason: strings.Repeat("é", 4000)}}}
	require.LessOrEqual(t, len(status(long)), statusBytes+len("…"))
}
