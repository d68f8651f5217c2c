package embedded

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// BenchmarkPublish publishes messages of 4 kB, so that a new block begins every thousand,
// to a stream of the shape of ours: with all protections of names, and without.
func BenchmarkPublish(b *testing.B) {
	for name, without := range map[string][]string{"protected": nil, "unprotected": {"folders", "meta"}} {
		b.Run(name, func(b *testing.B) {
			s, err := Start(Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", Streams: []string{"S"}, Without: without})
			require.NoError(b, err)
			defer s.Stop()
			nc, err := nats.Connect("", s.InProcess(), nats.Token(s.Token))
			require.NoError(b, err)
			defer nc.Close()
			js, err := jetstream.New(nc)
			require.NoError(b, err)
			_, err = js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"},
				Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1})
			require.NoError(b, err)
			body := make([]byte, 4096)
			i := 0
			for b.Loop() {
				_, err := js.Publish(b.Context(), fmt.Sprint("s.", i), body)
				require.NoError(b, err)
				i++
			}
		})
	}
}

// BenchmarkStart starts the broker of a store that has five streams.
func BenchmarkStart(b *testing.B) {
	names := []string{"A", "B", "C", "D", "E"}
	for name, without := range map[string][]string{"protected": nil, "unprotected": {"folders", "meta"}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			for b.Loop() {
				s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", Streams: names, Without: without})
				require.NoError(b, err)
				s.Stop()
			}
		})
	}
}
