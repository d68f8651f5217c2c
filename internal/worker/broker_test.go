package worker

import (
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
)

// A store that a passing program has opened is not joined: its broker goes
// with it, and the worker would look for it for ever.
func TestAWorkerWaitsForAPassingProgram(t *testing.T) {
	cfg := Config{DataDir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	passing, err := embedded.Start(embedded.Config{Dir: cfg.DataDir, Listen: "127.0.0.1:0", NoSync: true, Passing: true})
	require.NoError(t, err)
	t.Cleanup(passing.Stop)
	waits := make(chan struct{}, 1)
	log := zerolog.New(writerFunc(func([]byte) { waits <- struct{}{} })).Level(zerolog.WarnLevel)
	done := make(chan error, 1)
	go func() {
		stop, err := startBroker(t.Context(), &cfg, log)
		stop()
		done <- err
	}()
	<-waits
	passing.Stop()
	require.NoError(t, <-done)
	require.NotEqual(t, passing.URL, cfg.Queue.URL)
	require.NotEmpty(t, cfg.Queue.URL)
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
		stop, err := startBroker(t.Context(), &cfg, log)
		stop()
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
