package queue

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
)

// serverOfChoice runs the nats-server that ORDERPOST_NATS_SERVER names, in a process of its
// own (.ci/long: the least version, one in the middle, the newest), or else the one that is
// compiled in. restart stops it in peace and starts it again on its store, at its address.
func serverOfChoice(t *testing.T) (s *embedded.Server, restart func()) {
	t.Helper()
	dir := t.TempDir()
	path := os.Getenv("ORDERPOST_NATS_SERVER")
	if path == "" {
		s = startBrokerIn(t, dir)
		at, err := url.Parse(s.URL)
		require.NoError(t, err)
		running := s
		return s, func() {
			running.Stop()
			running, err = embedded.Start(embedded.Config{Dir: dir, Listen: at.Host, NoSync: true})
			require.NoError(t, err)
			t.Cleanup(running.Stop)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := free.Addr().String()
	require.NoError(t, free.Close())
	conf := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "listen: %q\nmax_payload: 8MB\njetstream { store_dir: %q }\n", at, dir), 0o600))
	var running *exec.Cmd
	start := func() {
		running = exec.Command(path, "-c", conf)
		require.NoError(t, running.Start())
	}
	stop := func() {
		_ = running.Process.Signal(syscall.SIGTERM)
		_ = running.Wait() // a server that was told to stop may say so by its exit code
	}
	start()
	t.Cleanup(func() { stop() })
	return &embedded.Server{Endpoint: embedded.Endpoint{URL: "nats://" + at}}, func() { stop(); start() }
}

// A server finds what it stored after it was stopped and started, in streams that grew over
// several files. nats-server 2.12.9 misses the records (#8254), 2.12.10 what is the last of
// its import in the waiting room (#8285).
func TestABrokerFindsWhatItStoredAfterARestart(t *testing.T) {
	t.Parallel()
	s, restart := serverOfChoice(t)
	q := openQueue(t, s, "a")
	const n = 10
	for _, c := range []struct{ stream, prefix string }{{q.Conn.n.results, q.Conn.n.resPre}, {q.Conn.n.waiting, q.Conn.n.waitPre + "bulk."}} {
		put := func(subject string, size int) uint64 {
			ack, err := q.Conn.js.PublishMsg(t.Context(), &nats.Msg{Subject: c.prefix + subject, Data: bytes.Repeat([]byte("x"), size)})
			require.NoError(t, err)
			return ack.Sequence
		}
		fill := func(name string) { // beyond two files of 8 MB
			for i := range 20 {
				put(fmt.Sprintf("%s-%d", name, i), 900<<10)
			}
		}
		stream, err := q.Conn.js.Stream(t.Context(), c.stream)
		require.NoError(t, err)
		first := make([]uint64, n)
		for i := range first {
			first[i] = put(fmt.Sprint("A-", i), 100)
		}
		fill("first")
		for i, seq := range first {
			put(fmt.Sprint("A-", i), 100)
			if c.stream == q.Conn.n.waiting {
				require.NoError(t, stream.DeleteMsg(t.Context(), seq))
			}
		}
		fill("second")
	}
	restart()
	require.Eventually(t, func() bool { return q.Conn.reconnects() > 0 && q.Conn.Connected() }, time.Minute, time.Millisecond)
	for _, c := range []struct{ stream, prefix string }{{q.Conn.n.results, q.Conn.n.resPre}, {q.Conn.n.waiting, q.Conn.n.waitPre + "bulk."}} {
		stream, err := q.Conn.js.Stream(t.Context(), c.stream)
		require.NoError(t, err)
		for i := range n {
			subject := fmt.Sprint(c.prefix, "A-", i)
			_, err := stream.GetLastMsgForSubject(t.Context(), subject)
			require.NoError(t, err, "%s in %s", subject, c.stream)
			_, err = stream.GetMsg(t.Context(), 0, jetstream.WithGetMsgSubject(subject))
			require.NoError(t, err, "%s in %s", subject, c.stream)
		}
	}
}
