package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/order"
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
	p := publishing{pipeline: newPipeline(q.Conn), wait: requestTimeout, mode: together}
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

// TestPendingBeforeTheConsumerKnows: the broker confirms an intent before its consumers hear of it.
func TestPendingBeforeTheConsumerKnows(t *testing.T) {
	for name, c := range map[string]struct {
		first, last, msgs, deleted, delivered uint64
		told, held                            int
		want                                  uint64
	}{
		"it has heard of none":                 {1, 3, 3, 0, 0, 0, 0, 3},
		"it has heard of the first":            {1, 3, 3, 0, 0, 1, 0, 3},
		"one is held":                          {1, 3, 3, 0, 1, 0, 1, 3},
		"it has heard of all":                  {1, 3, 3, 0, 1, 2, 1, 3},
		"all are settled, and stored":          {1, 3, 3, 0, 3, 0, 0, 0},
		"the settled ones have left":           {4, 6, 3, 0, 3, 0, 0, 3},
		"the log was purged before a delivery": {4, 6, 3, 0, 0, 0, 0, 3},
		"behind holes, of which any may be":    {1, 9, 4, 5, 6, 0, 1, 1},
		"behind holes, and none is held":       {3, 9, 3, 4, 6, 0, 0, 1},
		"more was delivered since":             {1, 3, 3, 0, 5, 0, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			info := &jetstream.ConsumerInfo{NumPending: uint64(c.told), NumAckPending: c.held}
			info.Delivered.Stream = c.delivered
			require.Equal(t, c.want, pendingBy(jetstream.StreamState{FirstSeq: c.first, LastSeq: c.last, Msgs: c.msgs, NumDeleted: int(c.deleted)}, info))
		})
	}
}

func TestOldestDue(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	now := time.Now()
	oldest := func() time.Time {
		at, err := q.Census.OldestDue(t.Context(), now)
		require.NoError(t, err)
		return at
	}
	require.Zero(t, oldest())
	publish(t, q, settle.Intent{OrderNo: "A", Body: body("A")})
	publish(t, q, settle.Intent{OrderNo: "B", Body: body("B")})
	got := pull(t, q, 2)
	require.True(t, oldest().Equal(got[0].EnqueuedAt), "of the two, and although they are in flight")
	settleAs(t, q, got[0], report(order.Accepted, got[0].History))
	require.NoError(t, q.Conn.nc.Flush())
	require.Eventually(t, func() bool {
		require.NoError(t, q.Trimmer.Trim(t.Context()))
		return oldest().Equal(got[1].EnqueuedAt)
	}, time.Minute, 5*time.Millisecond)
	settleAs(t, q, got[1], report(order.Accepted, got[1].History))
	requireDrained(t, q)
	require.Zero(t, oldest())
}

// What a producer stored in the queue with a time of its own is due from that time on. What
// is due beside it is seen, also behind more of them than are looked at often.
func TestAnOrderIsDueFromItsTimeOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	put := func(no, notBefore string) time.Time {
		m := &settle.Message{Subject: "orders.new." + no, Data: body(no), Header: settle.Header{settle.HeaderIntentID: {no}}}
		if notBefore != "" {
			m.Header.Set(settle.HeaderNotBefore, notBefore)
		}
		_, _, err := q.store.PublishIntent(t.Context(), m)
		require.NoError(t, err)
		stored, err := q.store.Intent(t.Context(), no)
		require.NoError(t, err)
		return stored.Time
	}
	oldest := func(now time.Time) time.Time {
		at, err := q.Census.OldestDue(t.Context(), now)
		require.NoError(t, err)
		return at
	}
	now := time.Now()
	eight, nine := now.Add(8*time.Hour).UTC(), now.Add(9*time.Hour).UTC()
	text := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	first := put("NINE", text(nine))
	put("EIGHT", text(eight))
	require.Zero(t, oldest(now))
	counts, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.True(t, counts.Oldest.Equal(first), "it is pending")
	require.True(t, oldest(eight).Equal(eight))
	require.True(t, oldest(nine.Add(time.Hour)).Equal(eight), "the oldest, in whichever order they were stored")

	past := put("PAST", text(now.Add(-time.Hour)))
	require.True(t, oldest(now).Equal(past), "it was not there before")
	wrong := put("WRONG", "tomorrow")
	require.True(t, oldest(now).Equal(past))
	require.NoError(t, q.store.DeleteIntent(t.Context(), 3))
	require.True(t, oldest(now).Equal(wrong), "a worker refuses it at once")
	require.NoError(t, q.store.DeleteIntent(t.Context(), 4))
	require.Zero(t, oldest(now))

	for i := range dueOften {
		put(fmt.Sprintf("L-%d", i), text(nine))
	}
	plain := put("PLAIN", "")
	require.True(t, oldest(now).Equal(plain))
	require.NoError(t, q.store.DeleteIntent(t.Context(), dueOften+5))
	require.True(t, oldest(now).Equal(plain), "a long look is not repeated at once")
	require.Zero(t, oldest(now.Add(dueEvery)))
}

func TestALostLeaseIsCountedOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, settle.Intent{OrderNo: "A", Body: body("A")}, settle.Intent{OrderNo: "B", Body: body("B")})
	got := pull(t, q, 2)
	got[1].Release() // a released lease is not counted as lost
	q.Worker.Disconnected()
	q.Claims.Extend() // notices the ended lease, too
	require.False(t, got[0].Lease().Valid())
	require.EqualValues(t, 1, q.Claims.Lost())
	got[0].Release()
}

func TestWaitingIsWhatNobodyWasGiven(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waiting := func() uint64 {
		d, err := q.Census.Deliveries(t.Context())
		require.NoError(t, err)
		return d.Undelivered
	}
	require.Zero(t, waiting())
	publish(t, q, settle.Intent{OrderNo: "A", Body: body("A")}, settle.Intent{OrderNo: "B", Body: body("B")}, settle.Intent{OrderNo: "C", Body: body("C")})
	require.Eventually(t, func() bool { return waiting() == 3 }, time.Minute, time.Millisecond, "the consumer learns of them after the stream")
	got := pull(t, q, 2)
	require.EqualValues(t, 1, waiting(), "two are in flight")
	got[0].Release()
	got[1].Release()
}

func TestFiledLettersAreCounted(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, settle.Intent{OrderNo: "A", Body: body("A")}, settle.Intent{OrderNo: "B", Body: body("B")})
	got := pull(t, q, 2)
	settleAs(t, q, got[0], report(order.Rejected, got[0].History))
	settleAs(t, q, got[1], report(order.Accepted, got[1].History))
	require.EqualValues(t, 1, q.Ledger.LettersFiled(order.OutcomeRejected)+q.Ledger.LettersFiled(order.OutcomeUnknown))
	require.Zero(t, q.Ledger.LettersFiled(order.OutcomeAccepted))
	require.Zero(t, q.ResultFailures())
	require.Zero(t, q.LetterFailures())
}

func TestFailedWritesAreCounted(t *testing.T) {
	var f failures
	for _, err := range []error{nil, settle.ErrStale, fmt.Errorf("%w: full", settle.ErrStorage), fmt.Errorf("%w: %w", errUnconfirmed, context.Canceled), settle.ErrStorage} {
		f.note(err)
	}
	require.Equal(t, WriteFailures{Refused: 2, Unconfirmed: 1}, f.read())
}
