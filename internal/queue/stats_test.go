package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func TestOldestPending(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	oldest := func() time.Time {
		counts, err := q.Census.Count(t.Context())
		require.NoError(t, err)
		return counts.Oldest
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
