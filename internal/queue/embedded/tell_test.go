package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// The server's warnings reach whoever runs it: those about a damaged store, and none
// about the folders that were made before the server started.
func TestTheServersWarningsAreTold(t *testing.T) {
	var mu sync.Mutex
	var said []string
	cfg := Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Streams: []string{"S", "EMPTY"}, Tell: func(text string, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	}}
	all := func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(said)
	}
	s, err := Start(cfg)
	require.NoError(t, err)
	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.1", []byte("hello"))
	require.NoError(t, err)
	nc.Close()
	s.Stop()
	require.Equal(t, "[]", all())

	stream := filepath.Join(cfg.Dir, "jetstream", "jetstream", "$G", "streams", "S")
	require.NoError(t, os.Remove(filepath.Join(stream, server.JetStreamMetaFile)))
	s, err = Start(cfg)
	require.NoError(t, err)
	s.Stop()
	require.Contains(t, all(), "Missing stream metafile")
	require.Contains(t, all(), filepath.Join(stream, "meta.inf"))
	require.NotContains(t, all(), "EMPTY")
}
