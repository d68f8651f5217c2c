package queue

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/settle"
)

// conditional returns a result's message as put sends it.
func conditional(q *Queue, no string, expect uint64) *write {
	msg := nats.NewMsg(q.Conn.n.resPre + no)
	msg.Data = []byte(`{"outcome":"retrying"}`)
	msg.Header.Set(settle.HeaderOutcome, "accepted")
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	msg.Header.Set(jetstream.ExpectedStreamHeader, q.Conn.n.results)
	return &write{msg: msg, replaces: expect > 0, done: make(chan struct{})}
}

func TestWritesThatMeetGoInOneAtomicBatch(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	var batch []*write
	for i := range 100 {
		batch = append(batch, conditional(q, fmt.Sprint("B-", i), 0))
	}
	w := makeWriter(q.Conn, q.reader, q.Conn.n.results)
	require.True(t, w.flushTogether(batch))
	for i, req := range batch {
		require.NoError(t, req.err)
		require.EqualValues(t, i+1, req.seq, "the sequences that the next conditions rest on")
		raw, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, req.msg.Subject)
		require.NoError(t, err)
		require.Equal(t, req.seq, raw.Seq)
		require.Equal(t, "accepted", raw.Header.Get(settle.HeaderOutcome))
	}
	require.EqualValues(t, 1, w.batches.Load())
}

// R1: the broker refuses a whole batch for one stale write and does not name
// it. The other writes must succeed.
func TestR1AStaleWriteInABatchIsSingledOut(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	_, err := q.results.put(t.Context(), conditional(q, "B-7", 0).msg, 0)
	require.NoError(t, err)
	var batch []*write
	for i := range 2 * firstBatch {
		batch = append(batch, conditional(q, fmt.Sprint("B-", i), 0))
	}
	w := makeWriter(q.Conn, q.reader, q.Conn.n.results)
	w.flush(batch)
	require.Zero(t, w.batches.Load())
	for i, req := range batch {
		if i == 7 {
			require.ErrorIs(t, req.err, settle.ErrStale)
			continue
		}
		require.NoError(t, req.err, i)
		require.NotZero(t, req.seq)
	}
}

func TestTwoWritesOfOneOrderDoNotShareABatch(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	batch := []*write{conditional(q, "B-1", 0), conditional(q, "B-1", 0), conditional(q, "B-2", 0)}
	makeWriter(q.Conn, q.reader, q.Conn.n.results).flush(batch)
	require.NoError(t, batch[2].err)
	require.NotEqual(t, batch[0].err == nil, batch[1].err == nil, "one wins")
	require.ErrorIs(t, errors.Join(batch[0].err, batch[1].err), settle.ErrStale)
}

// One server removes what a batch replaces before it syncs the batch. With replicas the
// log of the stream is synced.
func TestWhatReplacesTheOnlyCopyGoesSingly(t *testing.T) {
	t.Parallel()
	nodes, _ := startCluster(t)
	for name, c := range map[string]struct {
		q       *Queue
		batched int
	}{
		"one server":     {openQueue(t, startBroker(t), "a"), firstBatch},
		"three replicas": {openCluster(t, nodes, "a"), 2 * firstBatch},
	} {
		t.Run(name, func(t *testing.T) {
			w, q := makeWriter(c.q.Conn, c.q.reader, c.q.Conn.n.results), c.q
			w.modes.flushes = 4 // the next two are no samples
			w.modes.each.add(time.Hour)
			var old, mixed []*write
			for i := range firstBatch {
				old = append(old, conditional(q, fmt.Sprint("B-", i), 0))
			}
			w.flush(old)
			for i, first := range old {
				require.NoError(t, first.err)
				mixed = append(mixed, conditional(q, fmt.Sprint("N-", i), 0), conditional(q, fmt.Sprint("B-", i), first.seq))
			}
			w.flush(mixed)
			batched := 0
			for _, req := range mixed {
				require.NoError(t, req.err)
				raw, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, req.msg.Subject)
				require.NoError(t, err)
				require.Equal(t, req.seq, raw.Seq)
				if raw.Header.Get(jetstreamext.BatchSeqHeader) != "" {
					batched++
				}
			}
			require.Equal(t, c.batched, batched)
			require.EqualValues(t, 2, w.batches.Load())
		})
	}
}

func TestManyWritersCoalesce(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	const n = 2000
	var all sync.WaitGroup
	failed := make(chan error, n)
	for i := range n {
		all.Go(func() {
			if _, err := q.results.put(t.Context(), conditional(q, fmt.Sprint("B-", i), 0).msg, 0); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	require.Empty(t, failed)
	require.Positive(t, q.results.batches.Load())
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, c.Results)
}

// JetStream's answers and their meaning for a writer. Only a lack of room may
// close the gate (R10).
func TestR10OnlyALackOfRoomIsAStorageFault(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]error{
		10071: settle.ErrStale,   // wrong last sequence
		10164: settle.ErrStale,   // the same on replicas, while another write is on its way
		10008: errUnconfirmed,    // cluster not available for the moment
		10118: errUnconfirmed,    // stream offline
		10167: errUnconfirmed,    // too many requests
		10077: settle.ErrStorage, // store failed
		10023: settle.ErrStorage, // insufficient resources
		10047: settle.ErrStorage, // storage resources exceeded
	} {
		err := writeError(&jetstream.APIError{ErrorCode: code, Description: "…"})
		for _, e := range []error{settle.ErrStale, errUnconfirmed, settle.ErrStorage} {
			require.Equal(t, e == want, errors.Is(err, e), "code %d: %v", code, err)
		}
	}
	require.ErrorIs(t, writeError(nats.ErrTimeout), errUnconfirmed)
}

func TestAStoppedWriterAnswersEverybody(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	q.results.stop()
	q.results.stop()
	_, err := q.results.put(t.Context(), conditional(q, "B-1", 0).msg, 0)
	require.ErrorIs(t, err, errUnconfirmed)
}
