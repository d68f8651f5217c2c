package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/queuetest"
)

// TestWhatHoldsATrialUp: the first intent that is not acknowledged is told with its record, which
// says whether its acknowledgement had no effect, its redelivery was forgotten, or a worker holds it.
func TestWhatHoldsATrialUp(t *testing.T) {
	b := queuetest.Start(t)
	q := queuetest.Open(t, b, "worker")
	cfg := b.Config("bench")
	log := filepath.Join(t.TempDir(), "worker.log")
	require.NoError(t, os.WriteFile(log, []byte("about A-2\n\nabout A-1\n1\n2\n"), 0o600))
	var told string
	s := &stage{rig: &rig{say: func(format string, args ...any) { told += fmt.Sprintf(format, args...) }}, trial: trial{orders: 2}, queue: q,
		workers: []*process{{name: "worker", log: log}},
		connect: func() (*nats.Conn, jetstream.JetStream, error) { return connect(cfg.URL, cfg.Token) }}
	require.Equal(t, "worker:\n  about A-1\n  2", s.workers[0].lastWords(1, "A-1"))
	held := func(why string) {
		t.Helper()
		text, orderNo, err := s.held(t.Context())
		require.NoError(t, err)
		require.Equal(t, "A-1", orderNo)
		require.Contains(t, text, "intent 1, orders.new.A-1, ")
		require.Contains(t, text, why)
	}
	queuetest.Publish(t, q, queuetest.Intent("A-1", "i1"), queuetest.Intent("A-2", "i2"))
	held("it has no record")
	ds := queuetest.Pull(t, q, 2)
	queuetest.Settle(t, q, ds[1], queuetest.Report(order.Accepted, ds[1].History))
	held("it has no record")
	h := ds[0].History
	h.Attempts, h.LastAttemptAt = 1, time.Now().UTC()
	require.NoError(t, q.Worker.NoteAttempt(t.Context(), ds[0], h))
	held("it has a note, but no outcome")
	noted := queuetest.Lookup(t, q, "A-1")
	noted.Record.SetOutcome(order.OutcomeAccepted)
	_, err := q.Store().PutRecord(t.Context(), "A-1", noted.Record, noted.Seq)
	require.NoError(t, err)
	held("it has its outcome")

	require.Eventually(t, func() bool { // the broker has read the other one's acknowledgement
		text, _, err := s.held(t.Context())
		return err == nil && strings.Contains(text, "; 1 not acknowledged")
	}, time.Minute, time.Millisecond)
	p := &progress{seen: 2, at: time.Now()}
	s.told(t.Context(), p, stallTold-1)
	require.Empty(t, told, "it is not long yet")
	s.told(t.Context(), p, stallTold)
	require.Contains(t, told, "no progress for 3s: the API has seen 2 orders of 2\nconsumer: 2 deliveries, up to intent 2; acknowledged up to 0; 1 not acknowledged, 0 delivered again; 0 not delivered yet; 0 pulls wait\nintent 1, ")
	require.Contains(t, told, "\nworker:\n  about A-2")
	said := len(told)
	s.told(t.Context(), p, stallTimeout)
	require.Len(t, told, said, "once")
	p.noted(2, 1)
	require.False(t, p.told, "it moved")

}
