package queue

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/settle"
)

// conditional returns a write of a result as put sends it, which nobody waits for.
func conditional(q *Queue, no string, expect uint64) *outgoing {
	msg := nats.NewMsg(q.Conn.n.resPre + no)
	msg.Data = []byte(`{"outcome":"retrying"}`)
	msg.Header.Set(settle.HeaderOutcome, "accepted")
	return q.results.conditional(msg, expect)
}

// writeTogether writes a batch that met in one flush.
func writeTogether(t *testing.T, q *Queue, batch []*outgoing) {
	t.Helper()
	pipe := newPipeline(q.Conn)
	p := publishing{pipeline: &pipe, wait: requestTimeout, mode: together}
	p.publish(t.Context(), batch)
}

// stored returns the result that a write has stored, and whether it was part of an atomic batch.
func stored(t *testing.T, q *Queue, out *outgoing) (raw *settle.Message, batched bool) {
	t.Helper()
	require.NoError(t, out.err)
	raw, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, out.msg.Subject)
	require.NoError(t, err)
	require.Equal(t, out.seq, raw.Seq)
	return raw, raw.Header.Get(jetstreamext.BatchSeqHeader) != ""
}

func TestWritesThatMeetGoInOneAtomicBatch(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	var batch []*outgoing
	for i := range 100 {
		batch = append(batch, conditional(q, fmt.Sprint("B-", i), 0))
	}
	writeTogether(t, q, batch)
	for i, out := range batch {
		require.EqualValues(t, i+1, out.seq, "the sequences that the next conditions rest on")
		raw, batched := stored(t, q, out)
		require.True(t, batched)
		require.Equal(t, "accepted", raw.Header.Get(settle.HeaderOutcome))
	}
}

// R1: the broker refuses a whole batch for one stale write and does not name
// it. The other writes must succeed, and most of them share a batch still.
func TestR1AStaleWriteInABatchIsSingledOut(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	writeTogether(t, q, []*outgoing{conditional(q, "B-7", 0)})
	var batch []*outgoing
	for i := range 128 {
		batch = append(batch, conditional(q, fmt.Sprint("B-", i), 0))
	}
	writeTogether(t, q, batch)
	together := 0
	for i, out := range batch {
		if i == 7 {
			require.ErrorIs(t, writeError(out.err), settle.ErrStale)
		} else if _, batched := stored(t, q, out); batched {
			together++
		}
	}
	require.Greater(t, together, 100)
}

func TestTwoWritesOfOneOrderDoNotShareABatch(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	batch := []*outgoing{conditional(q, "B-1", 0), conditional(q, "B-1", 0), conditional(q, "B-2", 0)}
	writeTogether(t, q, batch)
	require.NoError(t, batch[0].err)
	require.ErrorIs(t, writeError(batch[1].err), settle.ErrStale)
	require.NoError(t, batch[2].err)
}

// One server removes what a batch replaces before it syncs the batch. With replicas the
// log of the stream is synced.
func TestWhatReplacesTheOnlyCopyGoesSingly(t *testing.T) {
	t.Parallel()
	nodes, _ := startCluster(t)
	for name, c := range map[string]struct {
		q        *Queue
		together bool
	}{
		"one server":     {openQueue(t, startBroker(t), "a"), false},
		"three replicas": {openCluster(t, nodes, "a"), true},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 16
			var old, mixed []*outgoing
			for i := range n {
				old = append(old, conditional(c.q, fmt.Sprint("B-", i), 0))
			}
			writeTogether(t, c.q, old)
			for i, first := range old {
				require.NoError(t, first.err)
				mixed = append(mixed, conditional(c.q, fmt.Sprint("N-", i), 0), conditional(c.q, fmt.Sprint("B-", i), first.seq))
			}
			writeTogether(t, c.q, mixed)
			for i, out := range mixed {
				_, batched := stored(t, c.q, out)
				require.Equal(t, c.together || i%2 == 0, batched)
			}
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
	batched := 0
	require.NoError(t, q.Results().Walk(t.Context(), 1, ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			if m.Header.Get(jetstreamext.BatchSeqHeader) != "" {
				batched++
			}
		}
		return nil
	}))
	require.Positive(t, batched)
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
