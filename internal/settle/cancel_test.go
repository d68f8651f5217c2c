package settle_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// mark tells a process that anna cancelled what is stored of an import, in the queue and in
// the waiting room.
func mark(t *testing.T, q *queue.Queue, batch string) {
	t.Helper()
	birth, _, err := q.Store().Stream(t.Context())
	require.NoError(t, err)
	room, err := q.Store().WaitingBirth(t.Context())
	require.NoError(t, err)
	known := q.Ledger.Cancellations()
	q.Ledger.SetCancellations(settle.Cancellations{Version: known.Version + 1, Marks: append(known.Marks, settle.Cancellation{
		Import: settle.ImportToken(batch), Queued: settle.StreamSeq{Seq: math.MaxUint64, Birth: birth}, Waiting: settle.StreamSeq{Seq: math.MaxUint64, Birth: room}, By: "anna"})})
}

// withdrawn puts intents of one import into the waiting room, and withdraws them there.
func withdrawn(t *testing.T, q *queue.Queue, in ...settle.Intent) {
	t.Helper()
	ms := wait(t, q, in...)
	before := q.Ledger.Cancellations()
	mark(t, q, in[0].Batch)
	for _, end := range move(t, q, ms) {
		require.Equal(t, settle.Withdrawn, end)
	}
	q.Ledger.SetCancellations(settle.Cancellations{Version: q.Ledger.Cancellations().Version + 1, Marks: before.Marks})
	require.Empty(t, waiting(t, q))
}

// handle lets the Handler do what a delivery needs. It must not be posted.
func handle(t *testing.T, q *queue.Queue, d *settle.Delivery) {
	t.Helper()
	settle.NewHandler(q.Worker, settle.HandlerOptions{Submit: func(context.Context, *order.Submission) *order.Report {
		require.Fail(t, "posted")
		return &order.Report{}
	}}).Handle(t.Context(), t.Context(), d, nil)
}

func covered(no, id string) settle.Intent {
	in := intent(no, id)
	in.Batch = "b"
	return in
}

// A worker that is given an intent that a person cancelled records that, and posts nothing.
func TestR15AWorkerSettlesWhatIsCancelled(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, covered("A-1", "i1"), intent("A-2", "i2"))
	mark(t, q, "b")
	ds := pull(t, q, 2)
	require.Equal(t, settle.WorkCancelled, ds[0].Work)
	require.Equal(t, settle.WorkSubmit, ds[1].Work, "another import's")
	handle(t, q, ds[0])
	settleAs(t, q, ds[1], report(order.Accepted, ds[1].History))
	requireDrained(t, q)
	rec := lookup(t, q, "A-1")
	require.Equal(t, []any{"cancelled", "anna", "b", "withdrawn by a person", 0}, []any{rec.Word, rec.By, rec.Batch, rec.Reason, rec.Attempts})
	a := requireBalanced(t, q)
	require.Equal(t, map[string]uint64{"accepted": 1, "cancelled": 1}, a.Outcomes)
	require.Zero(t, a.Letters, "who withdraws an order needs no letter about it")
}

// A mark covers what was stored when it was made, by the intent's place in the queue, or in
// the waiting room that it came from.
func TestR15AMarkCoversWhatWasStored(t *testing.T) {
	const here, there = 1, 2 // births of the two streams as the mark names them
	at := func(seq uint64, birth int64) settle.StreamSeq { return settle.StreamSeq{Seq: seq, Birth: birth} }
	mark := settle.Cancellation{Import: "march", Queued: at(7, here), Waiting: at(70, there)}
	one := mark
	one.Import, one.OrderNo = "", "A-1"
	for _, c := range []struct {
		importToken, orderNo   string
		queued, waiting        settle.StreamSeq
		covers, coversOneOrder bool
	}{
		{"march", "A-1", at(7, here), settle.StreamSeq{}, true, true},
		{"march", "A-1", at(8, here), settle.StreamSeq{}, false, false},
		{"march", "A-1", at(800, here), at(70, there), true, true},
		{"march", "A-1", at(7, here), at(71, there), false, false},
		{"march", "A-2", at(7, here), settle.StreamSeq{}, true, false},
		{"april", "A-1", at(7, here), settle.StreamSeq{}, false, true},
		{"april", "A-2", at(7, here), settle.StreamSeq{}, false, false},
		{"march", "A-1", at(7, 3), settle.StreamSeq{}, false, false},
		{"march", "A-1", at(8, here), at(70, 3), false, false},
		{"march", "A-1", at(7, here), at(71, 3), true, true}, // it was in the queue, whatever it came from
		{"march", "A-1", at(7, 3), at(70, there), true, true},
		{"march", "A-1", settle.StreamSeq{}, at(70, 3), false, false},
	} {
		require.Equal(t, c.covers, mark.Covers(c.importToken, c.orderNo, c.queued, c.waiting), "%+v", c)
		require.Equal(t, c.coversOneOrder, one.Covers(c.importToken, c.orderNo, c.queued, c.waiting), "%+v", c)
	}
}

// An older version of the marks, from a replica that lags, changes nothing.
func TestR15MarksOnlyGrowNewer(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	mark(t, q, "b")
	version, changed := q.Ledger.CancellationsChanged()
	q.Ledger.SetCancellations(settle.Cancellations{Version: version - 1})
	require.Len(t, q.Ledger.Cancellations().Marks, 1)
	select {
	case <-changed:
		t.Fatal("nothing changed")
	default:
	}
	q.Ledger.SetCancellations(settle.Cancellations{Version: version + 1})
	<-changed
	require.Empty(t, q.Ledger.Cancellations().Marks)
}

// What an attempt may have created is left to its worker: only the API or a person ends
// doubt. So is an order whose earlier intent is in doubt.
func TestR15DoubtIsLeftToItsWorker(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, covered("A-1", "i1"), covered("A-2", "i2"))
	ds := pull(t, q, 2)
	for _, d := range ds {
		r := report(order.Unsure, d.History)
		r.End, r.History.Unsure = order.EndSubmissionBudget, true
		settleAs(t, q, d, r)
	}
	mark(t, q, "b")
	for _, d := range pull(t, q, 2) {
		require.Equal(t, settle.WorkSubmit, d.Work)
		settleAs(t, q, d, report(order.Duplicate, d.History))
	}
	requireDrained(t, q)
	require.Equal(t, map[string]uint64{"accepted": 2}, requireBalanced(t, q).Outcomes)
}

// A delivery that no note explains may have been posted.
func TestR15AnUnexplainedDeliveryIsLeftToItsWorker(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, covered("A-1", "i1"))
	d := pull(t, q, 1)[0]
	mark(t, q, "b")
	d = again(t, d, q)
	require.Equal(t, settle.WorkSubmit, d.Work)
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
}

// An order that was tried without effect waits for its next attempt. A person cancels it:
// the attempt is not made.
func TestR15AnOrderThatIsTriedAgainIsCancelled(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, covered("A-1", "i1"))
	d := pull(t, q, 1)[0]
	r := report(order.Retry, d.History)
	r.End, r.Delay = order.EndSubmissionBudget, time.Minute
	s := settleAs(t, q, d, r)
	require.Equal(t, order.NoteDelayed, s.Record.Note)
	mark(t, q, "b")
	require.NoError(t, d.ExportAnswer().Nak()) // the broker forgets the delay
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkCancelled, d.Work)
	handle(t, q, d)
	requireDrained(t, q)
	rec := lookup(t, q, "A-1")
	require.Equal(t, []any{"cancelled", 1}, []any{rec.Word, rec.Attempts})
}

// A person cancels an order that waits at the gate. The submission hears of it, and ends
// before an attempt.
func TestR15ASubmissionHearsOfACancellation(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, covered("A-1", "i1"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	settle.NewHandler(q.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		cancelled, news := s.Cancelled(s.History)
		require.False(t, cancelled)
		mark(t, q, "b")
		<-news
		cancelled, _ = s.Cancelled(s.History)
		require.True(t, cancelled)
		doubtful := s.History
		doubtful.Doubt("test")
		cancelled, _ = s.Cancelled(doubtful)
		require.False(t, cancelled, "doubt stays with its worker")
		return &order.Report{End: order.EndCancelled, History: s.History}
	}}).Handle(t.Context(), t.Context(), d, nil)
	requireDrained(t, q)
	require.Equal(t, []any{"cancelled", "anna"}, []any{lookup(t, q, "A-1").Word, lookup(t, q, "A-1").By})
}

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
	q := openQueue(t, startBroker(t), "w1")
	values := []string{"", "7", "7@", "@7", "x@y", "0@0", "18446744073709551616@1", "1@1", "-1@1", "7@1@1"}
	for i, value := range values {
		publishWaited(t, q, fmt.Sprint("A-", i), value)
	}
	mark(t, q, "b")
	marks := q.Ledger.Cancellations()
	marks.Version, marks.Marks[0].Queued.Seq = marks.Version+1, uint64(len(values))
	q.Ledger.SetCancellations(marks)
	for i, value := range values {
		publishWaited(t, q, fmt.Sprint("B-", i), value)
	}
	for i, d := range pull(t, q, 2*len(values)) {
		want := settle.WorkCancelled
		if i >= len(values) {
			want = settle.WorkSubmit
		}
		require.Equal(t, want, d.Work, "%s with %q", d.OrderNo(), values[i%len(values)])
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

// R3: a worker gets nothing but passing faults, and cancels. Another one has left the order in doubt meanwhile:
// the outcome is nobody's word, and has its letter.
func TestR3ACancellationOfWhatAnotherWorkerLeftInDoubtIsNobodysWord(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	mark(t, a, "b")
	publish(t, a, covered("A-1", "i1"))
	former := pull(t, a, 1)[0]
	present := again(t, former, b)
	delayed := report(order.Unsure, present.History)
	delayed.End, delayed.Delay = order.EndSubmissionBudget, time.Hour
	settleAs(t, b, present, delayed)
	require.True(t, lookup(t, b, "A-1").Unsure)

	former.History.Attempts = 1
	cancelled := order.Report{End: order.EndCancelled, Reason: "withdrawn", History: former.History}
	former.History.Attempts = 0
	settleAs(t, a, former, cancelled)
	rec := lookup(t, a, "A-1")
	require.Equal(t, []any{"unknown", true, ""}, []any{rec.Word, rec.Unsure, rec.By})
	require.Equal(t, "i1", letterOf(t, a, "A-1").IntentID)
	requireBalanced(t, a)
}

// R4: an order was cancelled, and a worker that had lost it reports that it may have posted it. Its intent has
// left the queue: the worker stores the letter first.
func TestR4ALateDoubtAboutWhatWasCancelledHasItsLetterFirst(t *testing.T) {
	a, b, late, present := twoOwners(t)
	present.History = order.History{} // what the former one did was not seen
	settleAs(t, b, present, order.Report{End: order.EndCancelled})
	requireDrained(t, b)
	first := order.OutcomeNone
	a.Ledger.ExportSetStore(&meanwhile{Store: a.Store(), afterFiled: func() { first = lookup(t, b, "A-1").Outcome() }})
	late.Lease().ExportEndNow()
	h := late.History
	h.Attempts, h.Unsure, h.LastTimestamp = 1, true, time.Now().UnixMilli()
	settleAs(t, a, late, report(order.Unsure, h))
	require.Equal(t, order.OutcomeCancelled, first)
	rec := lookup(t, b, "A-1")
	require.Equal(t, []any{"unknown", "", "cancelled"}, []any{rec.Word, rec.By, rec.Was})
	require.Equal(t, body("A-1"), letterOf(t, b, "A-1").Body)
	requireLetters(t, b, 1)
	requireBalanced(t, b)
}
