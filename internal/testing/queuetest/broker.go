package queuetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

// Broker is an embedded broker on loopback, which does not fsync. It ends with the test.
type Broker struct {
	*embedded.Server
	Dir string
	cfg embedded.Config
}

// Start starts a broker, in a folder of its own unless change says otherwise.
func Start(t testing.TB, change ...func(*embedded.Config)) *Broker {
	t.Helper()
	b := &Broker{cfg: embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true}}
	for _, c := range change {
		c(&b.cfg)
	}
	b.Dir = b.cfg.Dir
	b.start(t)
	t.Cleanup(func() { b.Stop() }) // whichever runs by then
	return b
}

func (b *Broker) start(t testing.TB) {
	t.Helper()
	s, err := embedded.Start(b.cfg)
	require.NoError(t, err)
	b.Server = s
}

// Restart starts a broker that was stopped, on its folder and at its address.
func (b *Broker) Restart(t testing.TB) {
	t.Helper()
	b.cfg.Listen = strings.TrimPrefix(b.URL, "nats://")
	b.start(t)
}

// JetStream opens a connection of the test's own.
func (b *Broker) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(b.URL, nats.Token(b.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// Remake deletes streams with all they hold and makes them again, with another birth, or restored: with that of the
// former one, as from a backup. Open a queue afterwards, because the workers' consumer is gone, too.
func Remake(t testing.TB, s *embedded.Server, restored bool, streams ...string) {
	t.Helper()
	js := (&Broker{Server: s}).JetStream(t)
	for _, name := range streams {
		stream, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, js.DeleteStream(t.Context(), name))
		again := stream.CachedInfo().Config
		if !restored {
			again.Metadata = nil // says which stream it is
		}
		_, err = js.CreateStream(t.Context(), again)
		require.NoError(t, err)
	}
}

// Config returns the settings of a worker that knows of no other.
func (b *Broker) Config(name string) queue.Config {
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker = b.URL, b.Token, name, true
	cfg.Living = func(context.Context, *queue.Bucket, string) (string, error) { return "", nil }
	return cfg
}

// AsCommand makes the settings those of a command or a producer.
func AsCommand(cfg *queue.Config) { cfg.Worker, cfg.Living = false, nil }

// Open connects a worker to the broker, with the settings of Config unless change says
// otherwise. The first queue on a broker creates the streams.
func Open(t testing.TB, b *Broker, name string, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	cfg := b.Config(name)
	for _, c := range change {
		c(&cfg)
	}
	return Connect(t, cfg)
}

// Connect opens a queue and closes it at the end of the test.
func Connect(t testing.TB, cfg queue.Config, opts ...nats.Option) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop(), opts...)
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}
