package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

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
