package settle_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// R15: a mark covers what was in the queue that it was made about, and nothing of one that was made again.
func TestR15AMarkCancelsNothingOfAnotherQueue(t *testing.T) {
	for name, restored := range map[string]bool{"made again": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			former := openQueue(t, s, "w1")
			publish(t, former, covered("A-1", "i1"))
			mark(t, former, "b")
			queuetest.Remake(t, s.Server, restored, "ORDERS")
			q := openQueue(t, s, "w1")
			q.Ledger.SetCancellations(former.Ledger.Cancellations())
			publish(t, q, covered("A-1", "i1"))
			want := settle.WorkSubmit
			if restored {
				want = settle.WorkCancelled
			}
			require.Equal(t, want, pull(t, q, 1)[0].Work)
		})
	}
}

// What came out of a waiting room that is no more was in the queue when the mark was made.
func TestR15AMarkCoversWhatCameOutOfAnotherWaitingRoom(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	require.Equal(t, []settle.Move{settle.Moved}, move(t, q, wait(t, q, covered("A-1", "i1"))))
	queuetest.Remake(t, s.Server, false, "ORDERS_WAITING")
	mark(t, q, "b")
	require.Equal(t, settle.WorkCancelled, pull(t, q, 1)[0].Work)
}

// A producer may have written anything into the header that the feeder writes. It is cancelled by where it
// is stored.
func TestR15AHeaderThatNoFeederWroteChangesNothing(t *testing.T) {
	for _, value := range []string{"", "7", "7@", "@7", "x@y", "0@0", "18446744073709551616@1", "1@1", "-1@1", "7@1@1"} {
		t.Run(value, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			publishWaited(t, q, "A-1", value)
			mark(t, q, "b")
			marks := q.Ledger.Cancellations()
			marks.Version, marks.Marks[0].Queued.Seq = marks.Version+1, 1
			q.Ledger.SetCancellations(marks)
			publishWaited(t, q, "A-2", value)
			ds := pull(t, q, 2)
			require.Equal(t, []settle.Work{settle.WorkCancelled, settle.WorkSubmit}, []settle.Work{ds[0].Work, ds[1].Work})
		})
	}
}

// publishWaited stores an intent with a header that a producer made up.
func publishWaited(t *testing.T, q *queue.Queue, no, value string) {
	t.Helper()
	_, _, err := q.Store().PublishIntent(t.Context(), &settle.Message{Subject: "orders.new." + no, Data: body(no),
		Header: settle.Header{settle.HeaderBatch: {"b"}, settle.HeaderWaited: {value}}})
	require.NoError(t, err)
}

// A text of a StreamSeq reads as the same.
func TestAStreamSequenceIsAText(t *testing.T) {
	for _, s := range []settle.StreamSeq{{}, {Seq: 7, Birth: 1_790_000_000_123_456_789}, {Seq: 1<<64 - 1, Birth: -1}} {
		var back settle.StreamSeq
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, s, back, "%s", text)
	}
	var back settle.StreamSeq
	require.EqualError(t, back.UnmarshalText([]byte("7")), `"7" is not SEQ@BIRTH: strconv.ParseInt: parsing "": invalid syntax`)
}

// R13: an ID that the record lists among those that were moved proves nothing without the body. The intent is moved
// under an ID of its own, once.
func TestR13AMovedIDWithAnotherBodyIsAnotherIntent(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	settles := func() {
		t.Helper()
		d := pull(t, q, 1)[0]
		require.Equal(t, settle.WorkSubmit, d.Work)
		settleAs(t, q, d, report(order.Rejected, d.History))
		requireDrained(t, q)
	}
	first := wait(t, q, intent("A-1", "i1"))
	require.Equal(t, []settle.Move{settle.Moved}, move(t, q, first))
	settles()
	publish(t, q, correction("i2"))
	settles()
	require.Len(t, lookup(t, q, "A-1").Moved, 1)

	queuetest.Remake(t, s.Server, false, "ORDERS_WAITING") // it does not know the IDs that it had
	other := correction("i1")
	other.Body = []byte(`{"order_no":"A-1","timeout":30,"qty":"3"}`)
	ms := wait(t, q, other)
	require.Equal(t, []settle.Move{settle.Moved}, move(t, q, ms))
	settles()
	require.Equal(t, hashOf(t, other.Body), lookup(t, q, "A-1").BodyHash)
	publish(t, q, correction("i3"))
	settles()
	require.Equal(t, []settle.Move{settle.MovedBefore}, move(t, q, ms), "by a feeder that was cut off before the removal")
	require.Equal(t, []settle.Move{settle.MovedBefore}, move(t, q, first))
	requireBalanced(t, q)
}

// The longest ID that a record can carry leaves no room for the body.
func TestR13AnIDOfItsOwnOfTheLongestID(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	id := strings.Repeat("i", 1024)
	ms := wait(t, q, intent("A-1", id))
	forged := correction(id)
	publish(t, q, forged)
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	moveCut(t, q, ms)
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	require.Equal(t, []settle.Move{settle.MovedBefore}, move(t, q, ms))
}
