package service_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli/service"
	"orderpost/internal/order"
	"orderpost/internal/testing/bitrot"
)

// One flipped bit makes the broker cut a stream off. The workers and the audit say so, and
// nothing is posted until a person has accepted it.
func TestAStreamThatLostItsEndHoldsTheFleet(t *testing.T) {
	t.Parallel()
	for stream, part := range map[string]string{"ORDERS": "intents", "ORDERS_RESULTS": "results"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			s := openWatched(t, nil)
			s.publish(0, 20)
			s.shows(`orderpost_orders_total{outcome="accepted"} 20`)
			release := s.hold(0)
			for i := range 300 {
				s.publish(1000+i, 1)
			}
			had, err := s.queue.Intents().State(t.Context())
			require.NoError(t, err)
			s.eventually(func() bool {
				e, err := s.queue.Bucket().Get(t.Context(), "extents")
				return err == nil && bytes.Contains(e.Value, fmt.Appendf(nil, `"last":%d`, had.LastSeq))
			}, "the workers do not remember how far the stream has come")

			s.broker.Stop()
			damaged := map[string]string{"ORDERS": "SECRET-NO-1100", "ORDERS_RESULTS": "SECRET-NO-3"}[stream]
			require.NoError(t, bitrot.Damage(s.broker.Dir, stream, damaged, bitrot.Flip))
			s.broker.Restart(t)
			s.unready("that its broker confirmed are lost") // whether or not the worker's writes have filled the end up
			release()
			s.shows(`orderpost_stream_present{stream="` + part + `"} 0`)
			s.eventually(func() bool { return s.log.find("stream "+stream+" end", "level") == "error" }, "nobody is told")
			s.eventually(s.queue.Conn.Connected, "not connected")
			audit, err := audit.Audit(t.Context(), s.queue)
			require.NoError(t, err)
			require.False(t, audit.Balanced())
			require.Regexp(t, "stream "+stream+" end(s at|ed before) message .* that its broker confirmed are lost", fmt.Sprint(audit.Offenders))
			require.Contains(t, fmt.Sprint(audit.Offenders), "worker repair")

			s.repair()
			s.ready()
			s.shows(`orderpost_stream_present{stream="` + part + `"} 1`)
		})
	}
}

// An older copy of the whole store is put back under a worker that runs: its bucket knows of
// nothing missing, and the orders of the time since are pending once more. The worker saw more,
// and posts none of them.
func TestAnOlderCopyUnderARunningWorkerPostsNothing(t *testing.T) {
	t.Parallel()
	s := openWatched(t, nil, func(c *service.Config) {
		c.Submit.RequestTimeout, c.Queue.AttemptTimeout = time.Second, time.Second // what is given again waits so long after a reconnect
	})
	s.publish(0, 5)
	s.shows(`orderpost_orders_total{outcome="accepted"} 5`)
	release := s.hold(0) // the API answers nobody
	s.publish(100, 20)
	s.broker.Stop()
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(s.broker.Dir)))
	s.broker.Restart(t)
	release()
	s.eventually(func() bool {
		for no := 100; no < 120; no++ {
			e, err := s.queue.Ledger.Lookup(t.Context(), fmt.Sprintf("SECRET-NO-%d", no))
			if err != nil || e.Record.Outcome() != order.OutcomeAccepted {
				return false
			}
		}
		return true
	}, "not all are accepted")
	seen := func() bool {
		e, err := s.queue.Bucket().Get(t.Context(), "extents")
		state, stateErr := s.queue.Results().State(t.Context())
		return err == nil && stateErr == nil && bytes.Contains(e.Value, fmt.Appendf(nil, `"last":%d`, state.LastSeq))
	}
	s.eventually(seen, "the worker has not seen how far the results have come")
	attempts := func() (n int) {
		for no := 100; no < 120; no++ {
			e, _ := s.api.Lookup(fmt.Sprintf("SECRET-NO-%d", no))
			n += e.Attempts
		}
		return n
	}
	had := attempts()

	s.broker.Stop()
	require.NoError(t, os.RemoveAll(s.broker.Dir))
	require.NoError(t, os.CopyFS(s.broker.Dir, os.DirFS(copied)))
	require.NoError(t, os.Chmod(filepath.Join(s.broker.Dir, "token"), 0o600)) // CopyFS gave it to everybody, and the broker would make another
	s.broker.Restart(t)
	s.unready("that its broker confirmed are lost")
	s.eventually(s.queue.Conn.Connected, "not connected")
	audit, err := audit.Audit(t.Context(), s.queue)
	require.NoError(t, err)
	require.False(t, audit.Balanced())
	require.Equal(t, had, attempts(), "posted again")
}

// A worker that starts on a damaged store posts nothing. The one before it remembered, at
// its end, how far the streams had come.
func TestAWorkerThatStartsOnADamagedStorePostsNothing(t *testing.T) {
	var cfg *service.Config
	s := open(t, nil, func(c *service.Config) { cfg = c })
	s.publish(0, 20)
	s.shows(`orderpost_orders_total{outcome="accepted"} 20`)
	s.stop()
	require.NoError(t, <-s.ended)
	s.broker.Stop()
	require.NoError(t, bitrot.Damage(s.broker.Dir, "ORDERS_RESULTS", "SECRET-NO-3", bitrot.Flip))
	s.broker.Restart(t)
	s.eventually(s.queue.Conn.Connected, "not connected")
	s.publish(100, 5)

	ctx, cancel := context.WithCancel(t.Context())
	lines, ended := &logLines{}, make(chan error, 1)
	go func() { ended <- service.Run(ctx, *cfg, service.Env{Version: "v9.9.9", Log: zerolog.New(lines)}) }()
	s.eventually(func() bool {
		return lines.find("stream ORDERS_RESULTS ends at message", "level") == "error" && lines.find("working", "level") != ""
	}, "nobody is told")
	cancel()
	require.NoError(t, <-ended)
	for no := 100; no < 105; no++ {
		require.Zero(t, s.api.Created(fmt.Sprintf("SECRET-NO-%d", no)), "posted")
	}
}
