package service

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/testing/queuetest"
)

// A store that a passing program has opened is not joined: its broker goes
// with it, and the worker would look for it for ever.
func TestAWorkerWaitsForAPassingProgram(t *testing.T) {
	cfg := Config{DataDir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	passing := queuetest.Start(t, func(c *embedded.Config) { c.Dir, c.Temporary = cfg.DataDir, true })
	waits := make(chan struct{}, 1)
	log := zerolog.New(writerFunc(func([]byte) { waits <- struct{}{} })).Level(zerolog.WarnLevel)
	done := make(chan error, 1)
	go func() {
		server, err := startBroker(t.Context(), &cfg, log)
		if server != nil {
			server.Stop()
		}
		done <- err
	}()
	<-waits
	passing.Stop()
	require.NoError(t, <-done)
	require.NotEqual(t, passing.URL, cfg.Queue.URL)
	require.NotEmpty(t, cfg.Queue.URL)
}

// A worker that joined gets in again after the broker's token was renewed, since
// others could read it.
func TestAWorkerThatJoinedTakesUpANewToken(t *testing.T) {
	first := queuetest.Start(t)
	dir := first.Dir
	cfg := queue.DefaultConfig()
	require.NoError(t, JoinEmbedded(&cfg, dir))
	q := queuetest.Connect(t, cfg)
	first.Stop()
	require.NoError(t, os.Chmod(filepath.Join(dir, "token"), 0o644))

	var said []string
	log := zerolog.New(writerFunc(func(line []byte) { said = append(said, string(line)) })).Level(zerolog.WarnLevel)
	again := Config{DataDir: dir, NATSListen: strings.TrimPrefix(first.URL, "nats://")}
	stop, err := startBroker(t.Context(), &again, log)
	require.NoError(t, err)
	t.Cleanup(stop.Stop)
	require.NotEqual(t, first.Token, again.Queue.Token)
	require.Contains(t, strings.Join(said, ""), filepath.Join(dir, "token")+" can be read or changed by others (mode 0644): the broker has a new token")
	require.Eventually(t, q.Conn.Connected, 20*time.Second, 10*time.Millisecond)
}

type writerFunc func([]byte)

func (w writerFunc) Write(p []byte) (int, error) { w(p); return len(p), nil }

// A store that somebody is about to open, or to let go of, has no address. The
// worker waits for one of the two, and does not give up.
func TestAWorkerWaitsForAStoreWithoutAnAddress(t *testing.T) {
	cfg := Config{DataDir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	lock := flock.New(filepath.Join(cfg.DataDir, "lock"))
	held, err := lock.TryLock()
	require.NoError(t, err)
	require.True(t, held)
	waits := make(chan struct{}, 1)
	log := zerolog.New(writerFunc(func([]byte) { waits <- struct{}{} })).Level(zerolog.WarnLevel)
	done := make(chan error, 1)
	go func() {
		server, err := startBroker(t.Context(), &cfg, log)
		if server != nil {
			server.Stop()
		}
		done <- err
	}()
	select {
	case <-waits:
	case err := <-done:
		t.Fatal("it did not wait: ", err)
	}
	require.NoError(t, lock.Unlock())
	require.NoError(t, <-done)
	require.Nil(t, cfg.Queue.Locate, "the broker is its own")
}

// A second data folder runs its own broker beside the first, and says where.
func TestASecondDataFolderTakesAFreePort(t *testing.T) {
	if other, err := net.Listen("tcp", embedded.DefaultListen); err == nil { // else another program of this machine uses it
		t.Cleanup(func() { _ = other.Close() })
	}
	var log bytes.Buffer
	cfg := Config{DataDir: t.TempDir()}
	server, err := startBroker(t.Context(), &cfg, zerolog.New(&log))
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	require.Contains(t, log.String(), embedded.DefaultListen+" is taken by ")
	require.Contains(t, log.String(), "the embedded broker listens on "+strings.TrimPrefix(server.URL, "nats://"))
	var command queue.Config
	require.NoError(t, JoinEmbedded(&command, cfg.DataDir))
	require.Equal(t, server.URL, command.URL)
}
