package settle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// wait puts intents into the waiting room and returns them as a feeder reads them.
func wait(t *testing.T, q *queue.Queue, in ...settle.Intent) []*settle.Message {
	t.Helper()
	require.NoError(t, q.OpenWaiting(t.Context()))
	for i := range in {
		in[i].Lane = order.BulkLane
	}
	publish(t, q, in...)
	return waiting(t, q)
}

// waiting returns what waits without a time.
func waiting(t *testing.T, q *queue.Queue) (all []*settle.Message) {
	t.Helper()
	list, _, err := q.WaitingNow(t.Context())
	require.NoError(t, err)
	for _, w := range list {
		page, err := q.WaitingPage(t.Context(), w.Subject, 0, w.Count)
		require.NoError(t, err)
		all = append(all, page...)
	}
	return all
}

// asRead returns messages that were read, not pulled.
func asRead(ms []*settle.Message) []settle.Arrival {
	out := make([]settle.Arrival, len(ms))
	for i, m := range ms {
		out[i].Message = m
	}
	return out
}

func move(t *testing.T, q *queue.Queue, ms []*settle.Message) []settle.Move {
	t.Helper()
	ends, err := q.Move(t.Context(), asRead(ms))
	require.NoError(t, err)
	return ends
}

// keepsWaiting is a store whose removals from the waiting room fail: the feeder is
// cut off before them.
type keepsWaiting struct{ settle.Store }

func (keepsWaiting) DeleteWaiting(context.Context, uint64) error { return errors.New("cut off") }

// moveCut moves and is cut off before it removes anything.
func moveCut(t *testing.T, q *queue.Queue, ms []*settle.Message) {
	t.Helper()
	store := q.ExportStore()
	q.ExportSetStore(keepsWaiting{store})
	_, err := q.Move(t.Context(), asRead(ms))
	require.ErrorContains(t, err, "cut off")
	q.ExportSetStore(store)
}

// wakesElsewhere is a store whose process is frozen after it asked for the broker's
// run some times, and wakes with a connection to the next run.
type wakesElsewhere struct {
	settle.Store
	times atomic.Int32
}

func (s *wakesElsewhere) ServerID() string {
	if s.times.Add(-1) < 0 {
		return "next run"
	}
	return s.Store.ServerID()
}

// pulled pulls what waits in the import "-", as a feeder does.
func pulled(t *testing.T, q *queue.Queue, n int) (got []settle.Arrival) {
	t.Helper()
	require.Eventually(t, func() bool {
		more, err := q.PullWaiting(t.Context(), "orders.waiting.bulk.-", n-len(got))
		require.NoError(t, err)
		got = append(got, more...)
		return len(got) == n
	}, time.Minute, 5*time.Millisecond)
	return got
}

// losesAck is an answer whose acknowledgement is lost. The ack wait is over at once.
type losesAck struct{ settle.Answer }

func (a losesAck) Ack() error { return a.Nak() }

// pullCut pulls, moves, and is cut off before an acknowledgement arrives.
func pullCut(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	got := pulled(t, q, n)
	for i := range got {
		got[i].Answer = losesAck{got[i].Answer}
	}
	_, err := q.Move(t.Context(), got)
	require.NoError(t, err)
}

func TestR13AMoveKeepsTheIntent(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in := settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1", Batch: "march", Source: "march.csv:2", Traceparent: "00-1-2-01"}
	unnamed := settle.Intent{OrderNo: "A-2", Body: body("A-2")}
	page := wait(t, q, in, unnamed)
	require.Equal(t, []settle.Move{settle.Moved, settle.Moved}, move(t, q, page))
	require.Empty(t, waiting(t, q))
	byNo := make(map[string]*settle.Delivery)
	for _, d := range pull(t, q, 2) {
		byNo[d.OrderNo()] = d
		require.Equal(t, settle.WorkSubmit, d.Work)
	}
	a := byNo["A-1"].Intent
	require.Equal(t, []string{"march:1", "march", "march.csv:2", "00-1-2-01"}, []string{a.ID, a.Batch, a.Source, a.Traceparent})
	require.Regexp(t, `^seq:\d+@\d+$`, byNo["A-2"].Intent.ID, "an intent without an ID is named after its place in the waiting room")
	for _, d := range byNo {
		settleAs(t, q, d, report(order.Accepted, order.History{}))
	}
	requireDrained(t, q)
	require.True(t, lookup(t, q, "A-1").Waited)
	requireBalanced(t, q)
}

// A feeder is cut off between the publish and the removal. The next one recognises
// the intent wherever it is by then, and stores it no second time.
func TestR13AMoveThatIsCutOffIsFinished(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, q *queue.Queue){
		"it is pending": func(*testing.T, *queue.Queue) {},
		"it is in hand": func(t *testing.T, q *queue.Queue) { pull(t, q, 1) },
		"it was accepted": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
		},
		"it was rejected": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
		},
		"it was rejected, and its correction was accepted": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
			publish(t, q, intent("A-1", "corrected"))
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
		},
		"it was rejected and replayed": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
			require.Equal(t, settle.Replayed, replay(t, q, letterOf(t, q, "A-1"), settle.ReplayOptions{}))
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
		},
	} {
		for kind := range 4 {
			restarted, pulls := kind&1 != 0, kind&2 != 0
			t.Run(fmt.Sprintf("%s, broker restarted: %t, pulled: %t", name, restarted, pulls), func(t *testing.T) {
				cfg := embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true}
				s, err := embedded.Start(cfg)
				require.NoError(t, err)
				q := openQueue(t, s, "w1")
				page := wait(t, q, intent("A-1", "march:1"))
				if pulls {
					pullCut(t, q, 1)
				} else {
					moveCut(t, q, page)
				}
				meanwhile(t, q)
				before, err := q.Count(t.Context())
				require.NoError(t, err)
				if restarted { // it has forgotten the IDs of what left the stream
					q.Close()
					s.Stop()
					s, err = embedded.Start(cfg)
					require.NoError(t, err)
					q = openQueue(t, s, "w2")
				}
				t.Cleanup(s.Stop)
				next := asRead(waiting(t, q))
				if pulls {
					next = pulled(t, q, 1)
				}
				ends, err := q.Move(t.Context(), next)
				require.NoError(t, err)
				require.Equal(t, []settle.Move{settle.MovedBefore}, ends)
				require.Eventually(t, func() bool { return len(waiting(t, q)) == 0 }, time.Minute, time.Millisecond)
				after, err := q.Count(t.Context())
				require.NoError(t, err)
				require.Equal(t, before.LastIntent, after.LastIntent, "stored a second time")
			})
		}
	}
}

// A pulled intent that is blocked comes back, later each time. So does one that a
// feeder pulled whose term was over.
func TestR13APulledIntentThatIsNotMovedComesBack(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "direct"))
	wait(t, q, intent("A-1", "march:1"), intent("A-2", "march:2"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	told := &delays{}
	_, err := q.Move(ended, told.listen(pulled(t, q, 2)))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []time.Duration{time.Second, time.Second}, told.list)
	for i, want := range []time.Duration{2 * time.Second, 4 * time.Second} {
		got := pulled(t, q, 2-i)
		told.list = nil
		ends, err := q.Move(t.Context(), told.listen(got))
		require.NoError(t, err)
		require.Equal(t, []settle.Move{settle.MoveBlocked, settle.Moved}[:2-i], ends)
		require.Equal(t, []time.Duration{want}, told.list)
	}
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	require.Eventually(t, func() bool { // the broker handles the acknowledgement in its own time
		c, err := q.Count(t.Context())
		return err == nil && c.Pending == 1
	}, time.Minute, time.Millisecond)
	ends, err := q.Move(t.Context(), pulled(t, q, 1))
	require.NoError(t, err)
	require.Equal(t, []settle.Move{settle.Moved}, ends)
}

// An intent whose time is in its header alone comes back at its time, however often it
// was handed out before.
func TestR13AnIntentThatWaitsForItsHeaderComesBackInTime(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	require.NoError(t, q.OpenWaiting(t.Context()))
	in := intent("A-1", "march:1")
	in.NotBefore = time.Now().Add(20 * time.Second)
	ms := []*settle.Message{q.IntentMessage(in)}
	ms[0].Subject = "orders.waiting.bulk.-"
	for _, p := range q.Store().PublishIntents(t.Context(), ms, t.Context().Err) {
		require.NoError(t, p.Err)
	}
	got := pulled(t, q, 1)
	got[0].Delivered = 13 // an hour of pauses
	told := &delays{}
	ends, err := q.Move(t.Context(), told.listen(got))
	require.NoError(t, err)
	require.Equal(t, []settle.Move{settle.MoveBlocked}, ends)
	require.LessOrEqual(t, told.list[0], 20*time.Second)
}

// delays notes the delays of what is given back.
type delays struct{ list []time.Duration }

func (d *delays) listen(got []settle.Arrival) []settle.Arrival {
	for i := range got {
		got[i].Answer = listened{got[i].Answer, d}
	}
	return got
}

type listened struct {
	settle.Answer
	d *delays
}

func (l listened) NakWithDelay(delay time.Duration) error {
	l.d.list = append(l.d.list, delay)
	return l.Answer.NakWithDelay(min(delay, time.Millisecond))
}

// An acknowledgement of a feeder that was frozen arrives when another one has the
// intent in hand, or has moved it.
func TestR13ALateAcknowledgementIsTrue(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	wait(t, q, intent("A-1", "march:1"), intent("A-2", "march:2"))
	first := pulled(t, q, 2)
	frozen := make([]settle.Arrival, len(first))
	for i, m := range first {
		frozen[i] = m
		frozen[i].Answer = losesAck{m.Answer}
	}
	_, err := q.Move(t.Context(), frozen)
	require.NoError(t, err)
	second := pulled(t, q, 2)
	require.NoError(t, first[0].Answer.Ack())
	ends, err := q.Move(t.Context(), second)
	require.NoError(t, err)
	require.Equal(t, []settle.Move{settle.MovedBefore, settle.MovedBefore}, ends)
	require.NoError(t, first[1].Answer.Ack())
	require.Eventually(t, func() bool { return len(waiting(t, q)) == 0 }, time.Minute, time.Millisecond)
	for range 2 {
		settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	}
	requireDrained(t, q)
	require.EqualValues(t, 2, requireBalanced(t, q).Intents)
}

// The answer to a feeder's publish is lost.
func TestR13ALostAnswerIsRecognised(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"), intent("A-2", "march:2"))
	store := q.ExportStore()
	q.ExportSetStore(losesAnswers{store})
	ends, err := q.Move(t.Context(), asRead(page))
	require.ErrorContains(t, err, "no answer")
	require.Equal(t, []settle.Move{settle.MoveLater, settle.MoveLater}, ends)
	q.ExportSetStore(store)
	require.Len(t, waiting(t, q), 2, "nothing may leave without a confirmation")
	require.Equal(t, []settle.Move{settle.MovedBefore, settle.MovedBefore}, move(t, q, page))
	require.Empty(t, waiting(t, q))
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, c.LastIntent)
}

type losesAnswers struct{ settle.Store }

func (s losesAnswers) PublishIntents(ctx context.Context, ms []*settle.Message, may func() error) []settle.Published {
	out := s.Store.PublishIntents(ctx, ms, may)
	for i := range out {
		out[i] = settle.Published{Err: errors.New("no answer")}
	}
	return out
}

// Several feeders move the same intents at once, while a worker settles them.
func TestR13ManyFeedersMoveOnce(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	const n = 60
	var in []settle.Intent
	for i := range n {
		no := fmt.Sprint("A-", i)
		in = append(in, intent(no, "march:"+no))
	}
	page := wait(t, q, in...)
	var all sync.WaitGroup
	for i := range 4 {
		other := openQueue(t, s, fmt.Sprint("feeder-", i))
		all.Go(func() {
			for range 3 {
				_, _ = other.Move(t.Context(), asRead(page))
			}
		})
	}
	for range n {
		settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	}
	all.Wait()
	requireDrained(t, q)
	require.Empty(t, waiting(t, q))
	require.EqualValues(t, n, requireBalanced(t, q).Intents)
}

// Another intent of the order_no is pending. The waiting one stays, and is judged by
// the worker when its turn comes: here as a conflict with its dead letter.
func TestR13ABlockedIntentWaits(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "direct"))
	other := intent("A-1", "march:1")
	other.Body = []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`)
	page := wait(t, q, other)
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, page))
	require.Len(t, waiting(t, q), 1)
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	require.Equal(t, []settle.Move{settle.Moved}, move(t, q, page))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	_, err := q.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	require.True(t, letterOf(t, q, "A-1").Conflict)
	requireBalanced(t, q)
}

// The ID was used for another order a moment ago. The broker would take the intent
// for a duplicate; it must not get lost.
func TestR13AnIDThatWasUsedForAnotherOrderLosesNone(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "same"))
	page := wait(t, q, intent("A-2", "same"))
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, page))
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, page))
	require.Len(t, waiting(t, q), 1)
}

func TestR13WhatCanNeverBeSentIsMovedToItsDeadLetter(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1"}`), ID: "a"}, settle.Intent{OrderNo: "A-2", Body: []byte(`not JSON`), ID: "b"})
	require.Equal(t, []settle.Move{settle.Moved, settle.Moved}, move(t, q, page))
	var names []string
	for _, d := range pull(t, q, 2) {
		require.Equal(t, settle.WorkInvalid, d.Work)
		names = append(names, d.OrderNo())
	}
	require.ElementsMatch(t, []string{"A-1", "waiting-2"}, names)
}

// A move whose context is over publishes nothing.
func TestR13AMoveAfterItsTermMovesNothing(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := q.Move(ctx, asRead(page))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, waiting(t, q), 1)
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.LastIntent)
}

// A feeder that wakes with a connection to another run of the broker publishes nothing,
// even before it hears that it lost the former one: that run forgets the IDs of intents
// that were settled.
func TestR13AMoveIntoAnotherRunOfTheBrokerMovesNothing(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"), intent("A-2", "march:2"))
	store := q.ExportStore()
	for asked, want := range [][]settle.Move{
		{settle.MoveLater, settle.MoveLater}, // when the move begins
		{settle.MoveLater, settle.MoveLater}, // before it publishes
		{settle.Moved, settle.MoveLater},     // before the first message
	} {
		elsewhere := &wakesElsewhere{Store: store}
		elsewhere.times.Store(int32(asked) + 1)
		q.ExportSetStore(elsewhere)
		ends, err := q.Move(t.Context(), asRead(page))
		require.ErrorContains(t, err, "the connection to the broker was lost during a move")
		require.Equal(t, want, ends, "woken after question %d", asked+1)
	}
	q.ExportSetStore(store)
	require.Equal(t, []settle.Move{settle.MovedBefore, settle.Moved}, move(t, q, page))
}
