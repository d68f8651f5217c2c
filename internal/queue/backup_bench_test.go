package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
)

// BenchmarkBackup backs up and restores 100,000 results of some 500 bytes. Divide by that.
func BenchmarkBackup(b *testing.B) {
	const results = 100_000
	server, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(b, err)
	defer server.Stop()
	open := func(s *embedded.Server, worker bool) *Queue {
		cfg := DefaultConfig()
		cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living = s.URL, s.Token, "bench", worker, living
		if !worker {
			cfg.Missing = LeaveMissing
		}
		q, err := Open(b.Context(), cfg, zerolog.Nop())
		require.NoError(b, err)
		return q
	}
	q := open(server, true)
	defer q.Close()
	record := accepted("x")
	record.WriteID, record.Response, record.IntentID = "w", string(bytes.Repeat([]byte("a"), 100)), "i"
	data, err := json.Marshal(record)
	require.NoError(b, err)
	for i := range results {
		_, err := q.Conn.js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprint(q.Conn.n.resPre, i), Data: data})
		require.NoError(b, err)
		if i%1000 == 999 {
			<-q.Conn.js.PublishAsyncComplete()
		}
	}
	var file bytes.Buffer
	b.Run("backup", func(b *testing.B) {
		for b.Loop() {
			file.Reset()
			copied := NewBackup(q, &file)
			_, err := copied.CatchUp(b.Context())
			require.NoError(b, err)
			require.NoError(b, copied.Close())
		}
		b.ReportMetric(float64(file.Len())/results, "bytes/result")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			to, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
			require.NoError(b, err)
			f, err := ReadBackup(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }, nil)
			require.NoError(b, err)
			into := open(to, false)
			_, err = into.Restore(b.Context(), f, false)
			require.NoError(b, err)
			into.Close()
			to.Stop()
		}
	})
}
