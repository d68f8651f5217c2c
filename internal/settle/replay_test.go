package settle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

var anna = settle.Person{Name: "anna", Note: "asked the API's operator"}

// deadLetter settles an order with an outcome that files a letter.
func deadLetter(t *testing.T, q *queue.Queue, no string, r order.Report) *settle.Letter {
	t.Helper()
	publish(t, q, settle.Intent{OrderNo: no, Body: body(no), ID: "b1:" + no, Batch: "b1", Source: "march.csv:7"})
	settleAs(t, q, pull(t, q, 1)[0], r)
	requireDrained(t, q)
	return letterOf(t, q, no)
}

func rejected() order.Report {
	r := report(order.Rejected, order.History{})
	r.Reason = "rule 2"
	return r
}

// exhaustedInDoubt returns a report that ends as unknown.
func exhaustedInDoubt() order.Report {
	return order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Status: 504, Reason: "no answer", History: order.History{Attempts: 3, Unsure: true}}
}

func requireNoLetter(t *testing.T, q *queue.Queue, no string) {
	t.Helper()
	l, err := q.Ledger.Letter(t.Context(), no)
	require.NoError(t, err)
	require.Nil(t, l)
}

func replay(t *testing.T, q *queue.Queue, l *settle.Letter, o settle.ReplayOptions) settle.Replay {
	t.Helper()
	would := prospect(t, q, l, o)
	end, err := q.Operator.Replay(t.Context(), l, o)
	require.NoError(t, err)
	if end != settle.ReplayGone { // a dry run gets letters that were just listed
		require.Equal(t, would, end, "what was foretold")
	}
	return end
}

// prospect returns what a dry run says.
func prospect(t *testing.T, q *queue.Queue, l *settle.Letter, o settle.ReplayOptions) settle.Replay {
	t.Helper()
	ends, err := books.DryRunReplay(t.Context(), q, []*settle.Letter{l}, o)
	require.NoError(t, err)
	return ends[0]
}

func TestReplayCarriesHistoryOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", rejected())
	first := l.Seq
	for n := 1; n <= 3; n++ {
		require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
		requireNoLetter(t, q, "A-1")
		d := pull(t, q, 1)[0]
		require.Equal(t, fmt.Sprintf("replay:%d", l.Seq), d.Intent.ID)
		require.Equal(t, settle.WorkSubmit, d.Work)
		require.Equal(t, "b1", d.Intent.Batch)
		require.Equal(t, "march.csv:7", d.Intent.Source)
		settleAs(t, q, d, rejected())
		requireDrained(t, q)
		l = letterOf(t, q, "A-1")
		require.Equal(t, n, l.Replays)
		require.Len(t, l.Earlier, n)
		require.Equal(t, "b1:A-1", l.Earlier[n-1].IntentID)
		require.NotContains(t, l.Headers, settle.ExportHeaderReplays)
		require.NotContains(t, l.Headers, settle.ExportHeaderEarlier)
	}
	require.Greater(t, l.Seq, first)
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	requireNoLetter(t, q, "A-1")
	a := requireBalanced(t, q)
	require.EqualValues(t, 5, a.Intents)
	require.Equal(t, map[string]uint64{"accepted": 1}, a.Outcomes)
}

// TestReplayCut interrupts a replay after each of its steps, lets the worker
// act in between where it can, and repeats the replay: one intent, no letter
// lost.
func TestReplayCut(t *testing.T) {
	putBack := func(t *testing.T, q *queue.Queue, l *settle.Letter, o settle.ReplayOptions) {
		t.Helper()
		entry, err := q.Ledger.Lookup(t.Context(), l.OrderNo)
		require.NoError(t, err)
		end, err := q.Operator.ExportPutBack(t.Context(), l, entry.Record, o)
		require.NoError(t, err)
		require.Equal(t, settle.Replayed, end)
	}
	leave := settle.ReplayOptions{ResubmitUnknown: true, Person: anna}
	for name, c := range map[string]struct {
		cut func(t *testing.T, q *queue.Queue, l *settle.Letter)
		end settle.Replay
		// intents that were stored in the end, the first one included
		intents uint64
	}{
		"before anything": {func(*testing.T, *queue.Queue, *settle.Letter) {}, settle.Replayed, 2},
		"after the permission": {func(t *testing.T, q *queue.Queue, l *settle.Letter) {
			require.NoError(t, q.Operator.ExportAllow(t.Context(), l, l.ExportReplayID(), anna))
		}, settle.Replayed, 2},
		"after publishing": {func(t *testing.T, q *queue.Queue, l *settle.Letter) { putBack(t, q, l, leave) }, settle.ReplayedBefore, 2},
		"after publishing, accepted since": {func(t *testing.T, q *queue.Queue, l *settle.Letter) {
			putBack(t, q, l, leave)
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
		}, settle.ReplayGone, 2},
		"after publishing, failed since": {func(t *testing.T, q *queue.Queue, l *settle.Letter) {
			putBack(t, q, l, leave)
			settleAs(t, q, pull(t, q, 1)[0], exhaustedInDoubt())
			requireDrained(t, q)
			require.Equal(t, 1, letterOf(t, q, l.OrderNo).Replays)
		}, settle.ReplayGone, 2},
		"after publishing, worker died before the letter": {func(t *testing.T, q *queue.Queue, l *settle.Letter) {
			putBack(t, q, l, leave)
			d := pull(t, q, 1)[0]
			writeOnly(t, q, d, report(order.Accepted, d.History))
			require.NoError(t, q.Worker.ExportGiveBack(d, 0))
			d.Release()
		}, settle.ReplayedBefore, 2},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			l := deadLetter(t, q, "A-1", exhaustedInDoubt())
			require.Equal(t, settle.ReplayInDoubt, replay(t, q, l, settle.ReplayOptions{}), "without leave")
			c.cut(t, q, l)
			require.Equal(t, c.end, replay(t, q, l, leave))
			require.Equal(t, settle.ReplayGone, replay(t, q, l, leave), "the same again")
			counts, err := q.Census.Count(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.intents, counts.LastIntent)
			if counts.Pending > 0 {
				d := pull(t, q, 1)[0]
				require.Contains(t, []settle.Work{settle.WorkSubmit, settle.WorkSettled}, d.Work)
				if d.Work == settle.WorkSettled {
					require.NoError(t, q.Worker.Complete(t.Context(), d))
					d.Release()
				} else {
					require.True(t, d.Allowed)
					settleAs(t, q, d, report(order.Accepted, d.History))
				}
				requireDrained(t, q)
				requireNoLetter(t, q, "A-1")
			}
			requireBalanced(t, q)
		})
	}
}

func TestReplayRefusals(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)

	l := deadLetter(t, q, "pending", rejected())
	publish(t, q, settle.Intent{OrderNo: "pending", Body: body("pending"), ID: "other"})
	require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{}))
	require.Equal(t, l.Seq, letterOf(t, q, "pending").Seq, "the letter stays")
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)

	publish(t, q, settle.Intent{OrderNo: "late", Body: body("late"), ID: "late", Deadline: past})
	settleAs(t, q, pull(t, q, 1)[0], order.Report{End: order.EndDeadline})
	requireDrained(t, q)
	l = letterOf(t, q, "late")
	require.Equal(t, settle.ReplayLate, replay(t, q, l, settle.ReplayOptions{}))
	require.Equal(t, settle.Replayed, prospect(t, q, l, settle.ReplayOptions{Deadline: &future}))
	require.Equal(t, l.Seq, letterOf(t, q, "late").Seq, "a dry run changes nothing")
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{Deadline: &future}))
	d := pull(t, q, 1)[0]
	require.True(t, d.Intent.Deadline.Equal(future))
	settleAs(t, q, d, report(order.Accepted, order.History{}))
	requireDrained(t, q)

	js := s.JetStream(t)
	_, err := js.Publish(t.Context(), "orders.new.foreign", body("someone-else"))
	require.NoError(t, err)
	settleAs(t, q, pull(t, q, 1)[0], order.Report{End: order.EndInvalid})
	requireDrained(t, q)
	require.Equal(t, settle.Replayed, prospect(t, q, letterOf(t, q, "foreign"), settle.ReplayOptions{}), "its subject can be published to; the body is judged anew")

	_, err = js.Publish(t.Context(), "orders.new.not%an%encoding", body("x"))
	require.NoError(t, err)
	settleAs(t, q, pull(t, q, 1)[0], order.Report{End: order.EndInvalid})
	requireDrained(t, q)
	listed := false
	require.NoError(t, books.LetterPages(t.Context(), q, func(page []*settle.Letter, unreadable []error) error {
		require.Empty(t, unreadable)
		for _, l := range page {
			if strings.HasSuffix(l.Subject, "not%an%encoding") {
				require.Equal(t, settle.ReplayForeign, replay(t, q, l, settle.ReplayOptions{}))
				listed = true
			}
		}
		return nil
	}))
	require.True(t, listed, "its letter was not listed")

	deadLetter(t, q, "conflict", rejected())
	require.Equal(t, settle.Replayed, replay(t, q, letterOf(t, q, "conflict"), settle.ReplayOptions{}))
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	publish(t, q, settle.Intent{OrderNo: "conflict", Body: []byte(`{"order_no":"conflict","timeout":30,"qty":"2"}`), ID: "c2"})
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	_, err = q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	require.Equal(t, settle.ReplayAccepted, replay(t, q, letterOf(t, q, "conflict"), settle.ReplayOptions{ResubmitUnknown: true}))
	requireBalanced(t, q)
}

// TestPermissionIsForOneIntent: a permission does not cover an intent that a
// producer enqueues between permission and replay.
func TestPermissionIsForOneIntent(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	require.NoError(t, q.Operator.ExportAllow(t.Context(), l, l.ExportReplayID(), anna))
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b2:1"})
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	require.False(t, d.Allowed)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	entry, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	require.Equal(t, "unknown", entry.Record.Word)
	require.Equal(t, "anna", entry.Record.Interventions[0].By)
	requireBalanced(t, q)
}

// TestReplayUnderWork replays while a worker settles orders, and interrupts the
// replay again and again. At the end the books balance and no letter is left.
func TestReplayUnderWork(t *testing.T) {
	const n = 300
	s := startBroker(t)
	q, other := openQueue(t, s, "w1"), openQueue(t, s, "replayer")
	in := make([]settle.Intent, n)
	for i := range in {
		no := fmt.Sprintf("A-%03d", i)
		in[i] = settle.Intent{OrderNo: no, Body: body(no), ID: "b1:" + no}
	}
	publish(t, q, in...)
	var accepted atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for range 4 {
		working.Go(func() {
			for ctx.Err() == nil {
				_ = q.Pull(ctx, 4, time.Second, func(ds []*settle.Delivery) { // a loaded broker may not answer in time; the next pull asks again
					for _, d := range ds {
						settleAtRandom(q, d, &accepted)
					}
				})
			}
		})
	}
	defer trimming(t, q)()
	cuts, most := 0, 20 // milliseconds; grows until slow machines finish, too
	require.Eventually(t, func() bool {
		brief, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(most))*time.Millisecond)
		defer cancel()
		err := books.LetterPages(brief, other, func(page []*settle.Letter, unreadable []error) error {
			for _, l := range page {
				if _, err := other.Operator.Replay(brief, l, settle.ReplayOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			cuts++
			most += 1 + most/10
		}
		c, err := other.Census.Count(t.Context())
		return err == nil && c.Pending == 0 && c.Letters == 0 && accepted.Load() >= n
	}, 3*time.Minute, time.Millisecond)
	stop()
	working.Wait()
	require.Positive(t, cuts, "nothing was cut off")
	a := requireBalanced(t, q)
	require.Equal(t, map[string]uint64{"accepted": n}, a.Outcomes)
	require.EqualValues(t, n, accepted.Load(), "an order was settled as accepted twice")
	require.Greater(t, a.Intents, uint64(n))
}

// settleAtRandom accepts one order in three, and rejects the others.
func settleAtRandom(q *queue.Queue, d *settle.Delivery, accepted *atomic.Int64) {
	defer d.Release()
	if d.Work == settle.WorkSettled {
		_ = q.Worker.Complete(context.Background(), d)
		return
	}
	r := report(order.Rejected, d.History)
	if rand.IntN(3) == 0 {
		r.Verdict = order.Accepted
	}
	_, err := q.Worker.Settle(context.Background(), d, &r, order.Decide(&r, order.Facts{}))
	if r.Verdict != order.Accepted {
		return
	}
	for err != nil { // what the broker did not confirm in time may be stored
		var entry settle.Entry
		if entry, err = q.Ledger.Lookup(context.Background(), d.OrderNo()); err == nil && entry.Record.Outcome() != order.OutcomeAccepted {
			return
		}
	}
	accepted.Add(1)
}

// TestReplayOfALostResult: the letter remembers the doubt, and the permission
// to send the order again writes it into the results again.
func TestReplayOfALostResult(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	stream, err := s.JetStream(t).Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), stream.CachedInfo().State.LastSeq))
	require.Equal(t, settle.ReplayInDoubt, replay(t, q, l, settle.ReplayOptions{}))
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	d := pull(t, q, 1)[0]
	require.True(t, d.Allowed)
	require.True(t, d.History.Unsure)
	settleAs(t, q, d, order.Report{End: order.EndAnswer, Verdict: order.Rejected, History: d.History})
	require.Equal(t, "unknown", lookup(t, q, "A-1").Word, "the doubt was forgotten")
	requireDrained(t, q)
	requireBalanced(t, q)
}

// A permission covers the doubt that the person saw. The worker that used it
// went down in its attempt. That is new doubt, and park asks a person again.
func TestR6AnAttemptThatNobodyEndedEndsThePermission(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	d := pull(t, q, 1)[0]
	require.True(t, d.Allowed)
	d = again(t, d, q)
	require.True(t, d.Allowed, "nothing was noted, so that nothing was posted under park")
	h := d.History
	h.Attempts++
	err := q.Worker.NoteAttempt(t.Context(), d, h)
	require.NoError(t, err)
	d = again(t, d, q)
	require.True(t, d.History.Unsure)
	require.False(t, d.Allowed)
	settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
	d = pull(t, q, 1)[0]
	require.False(t, d.Allowed, "a hand-back does not bring it back")
}

// A producer publishes an intent under the ID of a letter's replay. It is that replay only if
// it has the letter's body.
func TestR5AnIDProvesNothingWithoutTheBody(t *testing.T) {
	forge := func(q *queue.Queue, l *settle.Letter, body []byte) {
		publish(t, q, settle.Intent{OrderNo: l.OrderNo, Body: body, ID: fmt.Sprintf("replay:%d", l.Seq), Batch: "forged"})
	}
	requireReplayed := func(q *queue.Queue, id string) {
		t.Helper()
		requireNoLetter(t, q, "A-1")
		d := pull(t, q, 1)[0]
		require.Equal(t, id, d.Intent.ID)
		require.Equal(t, settle.WorkSubmit, d.Work)
		require.Equal(t, hashOf(t, body("A-1")), d.Order.BodyHash())
		settleAs(t, q, d, report(order.Accepted, d.History))
		requireDrained(t, q)
		require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())
		requireBalanced(t, q)
	}
	other := correction("").Body

	t.Run("another body, cancelled", func(t *testing.T) {
		s := startBroker(t)
		q := openQueue(t, s, "w1")
		forgetIDs(t, s)
		l := deadLetter(t, q, "A-1", rejected())
		forge(q, l, other)
		require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{}), "while the other one is pending")
		require.Equal(t, l.Seq, letterOf(t, q, "A-1").Seq)
		mark(t, q, "forged")
		handle(t, q, pull(t, q, 1)[0])
		q.Ledger.SetCancellations(settle.Cancellations{Version: q.Ledger.Cancellations().Version + 1})
		requireDrained(t, q)
		require.Equal(t, order.OutcomeCancelled, lookup(t, q, "A-1").Outcome())

		require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
		require.Equal(t, settle.ReplayGone, replay(t, q, l, settle.ReplayOptions{}))
		requireReplayed(q, fmt.Sprintf("replay:%d@%d", l.Seq, l.FiledAt.UnixNano()))
	})
	t.Run("another body, while the permission is given", func(t *testing.T) {
		q := openQueue(t, startBroker(t), "w1")
		l := deadLetter(t, q, "A-1", exhaustedInDoubt())
		forge(q, l, other)
		require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
		require.False(t, lookup(t, q, "A-1").Allowed)
		require.Equal(t, settle.WorkWithheld, pull(t, q, 1)[0].Work)
	})
	t.Run("another body that can never be sent", func(t *testing.T) {
		q := openQueue(t, startBroker(t), "w1")
		l := deadLetter(t, q, "A-1", rejected())
		forge(q, l, []byte("no order"))
		require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{}))
		requireDeadLetterStays(t, q, l)
	})
	t.Run("another body, by who can read letters", func(t *testing.T) {
		q := openQueue(t, startBroker(t), "w1")
		l := deadLetter(t, q, "A-1", rejected())
		for _, id := range []string{fmt.Sprintf("replay:%d", l.Seq), fmt.Sprintf("replay:%d@%d", l.Seq, l.FiledAt.UnixNano())} {
			publish(t, q, settle.Intent{OrderNo: l.OrderNo, Body: other, ID: id, Batch: "forged"})
			mark(t, q, "forged")
			handle(t, q, pull(t, q, 1)[0])
			requireDrained(t, q)
		}
		_, err := q.Operator.Replay(t.Context(), l, settle.ReplayOptions{})
		require.ErrorContains(t, err, "export the letter, enqueue its order, and drop the letter")
		requireDeadLetterStays(t, q, l)
	})
	t.Run("the same body", func(t *testing.T) {
		q := openQueue(t, startBroker(t), "w1")
		l := deadLetter(t, q, "A-1", rejected())
		forge(q, l, l.Body)
		require.Equal(t, settle.ReplayedBefore, replay(t, q, l, settle.ReplayOptions{}))
		requireReplayed(q, fmt.Sprintf("replay:%d", l.Seq))
	})
	t.Run("another order", func(t *testing.T) {
		s := startBroker(t)
		q := openQueue(t, s, "w1")
		l := deadLetter(t, q, "A-1", rejected())
		id := fmt.Sprintf("replay:%d", l.Seq)
		publish(t, q, settle.Intent{OrderNo: "B-1", Body: body("B-1"), ID: id})
		_, err := q.Operator.Replay(t.Context(), l, settle.ReplayOptions{})
		require.ErrorIs(t, err, settle.ErrSwallowed)
		require.ErrorContains(t, err, `order A-1`)
		require.ErrorContains(t, err, id)
		requireDeadLetterStays(t, q, l)
		forgetIDs(t, s)
		require.Eventually(t, func() bool {
			end, err := q.Operator.Replay(t.Context(), l, settle.ReplayOptions{})
			return err == nil && end == settle.Replayed
		}, time.Minute, 5*time.Millisecond)
		requireNoLetter(t, q, "A-1")
	})
}

func requireDeadLetterStays(t *testing.T, q *queue.Queue, l *settle.Letter) {
	t.Helper()
	require.Equal(t, l.Seq, letterOf(t, q, l.OrderNo).Seq)
}
