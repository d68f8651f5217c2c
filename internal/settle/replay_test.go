package settle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/deadletter"
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
	ends, err := deadletter.DryRunReplay(t.Context(), q, []*settle.Letter{l}, o)
	require.NoError(t, err)
	return ends[0]
}

func TestReplayCarriesHistoryOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", rejected())
	first := l.Seq
	for n := 1; n <= 3; n++ {
		require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
		require.Equal(t, l.Seq, letterOf(t, q, "A-1").Seq, "until the replay has an outcome")
		d := pull(t, q, 1)[0]
		require.Equal(t, fmt.Sprintf("replay:%d", l.Seq), d.Intent.ID)
		require.Equal(t, settle.WorkSubmit, d.Work)
		require.Equal(t, "b1", d.Intent.Batch)
		require.Equal(t, "march.csv:7", d.Intent.Source)
		settleAs(t, q, d, rejected())
		requireDrained(t, q)
		requireLetters(t, q, 1)
		l = letterOf(t, q, "A-1")
		require.Equal(t, n, l.Replays)
		rec := lookup(t, q, "A-1")
		require.Len(t, rec.Earlier, n)
		require.Equal(t, "b1:A-1", rec.Earlier[n-1].IntentID)
	}
	require.Greater(t, l.Seq, first)
	require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	requireLetters(t, q, 0)
	a := requireBalanced(t, q)
	require.EqualValues(t, 5, a.Intents)
	require.Equal(t, map[string]uint64{"accepted": 1}, a.Outcomes)
}

// A replay whose publish is not confirmed looks for its intent, whatever became of that one.
func TestReplayWithoutAConfirmation(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, q *queue.Queue)
		end       settle.Replay
		intents   uint64
	}{
		"it is stored": {func(*testing.T, *queue.Queue) {}, settle.Replayed, 2},
		"it was accepted": {func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
		}, settle.Replayed, 2},
		"it failed": {func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
		}, settle.Replayed, 2},
		"it failed, and a correction was withdrawn": {func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
			withdrawn(t, q, covered("A-1", "i2"))
		}, settle.Replayed, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
			forgetIDs(t, s)
			l := deadLetter(t, q, "A-1", rejected())
			slow.Ledger.ExportSetStore(&unconfirmed{Store: slow.Store(), meanwhile: func() { c.meanwhile(t, q) }})
			end, err := slow.Operator.Replay(t.Context(), l, settle.ReplayOptions{})
			require.NoError(t, err)
			require.Equal(t, c.end, end)
			counts, err := q.Census.Count(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.intents, counts.LastIntent)
			requireBalanced(t, q)
		})
	}
}

// unconfirmed is a store that stores the first intent, and does not say so before all of meanwhile.
type unconfirmed struct {
	settle.Store
	meanwhile func()
}

func (s *unconfirmed) PublishIntent(ctx context.Context, m *settle.Message) (settle.PublishStatus, uint64, error) {
	p, seq, err := s.Store.PublishIntent(ctx, m)
	if s.meanwhile != nil && err == nil {
		once(&s.meanwhile)
		return settle.PublishNone, 0, settle.ErrUnreachable
	}
	return p, seq, err
}

// The stream lost the intent of a replay, which a worker had or may have posted. The letter is replayed again.
func TestReplayOfALostReplay(t *testing.T) {
	o := settle.ReplayOptions{ResubmitUnknown: true, Person: anna}
	for name, c := range map[string]struct {
		work func(*testing.T, *queue.Queue, *settle.Delivery)
		// whether an attempt may have created the order
		doubt bool
	}{
		"it was handed back": {func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
		}, false},
		"it may have been posted": {func(t *testing.T, q *queue.Queue, d *settle.Delivery) { attempting(t, q, d) }, true},
		"a correction was withheld for it": {func(t *testing.T, q *queue.Queue, d *settle.Delivery) {
			attempting(t, q, d)
			require.NoError(t, q.Store().DeleteIntent(t.Context(), d.Seq))
			withheld(t, q)
			require.Len(t, lettersOf(t, q, "A-1"), 2)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q := openQueue(t, s, "w1")
			forgetIDs(t, s)
			l := deadLetter(t, q, "A-1", rejected())
			require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
			d := pull(t, q, 1)[0]
			c.work(t, q, d)
			require.NoError(t, q.Store().DeleteIntent(t.Context(), d.Seq))
			if c.doubt {
				require.Equal(t, settle.ReplayInDoubt, replay(t, q, l, settle.ReplayOptions{}))
				require.Equal(t, settle.ReplayGone, replay(t, q, l, o), "she has not seen the doubt")
				all := lettersOf(t, q, "A-1")
				l = all[len(all)-1]
			}
			require.Eventually(t, func() bool { // until the broker has forgotten the ID
				end, err := q.Operator.Replay(t.Context(), l, o)
				return err == nil && end == settle.Replayed
			}, time.Minute, 5*time.Millisecond)
			require.Equal(t, settle.ReplayedBefore, replay(t, q, l, o))
			d = pull(t, q, 1)[0]
			if d.Work == settle.WorkNone { // the note may be that of a later delivery
				require.NoError(t, q.Worker.GiveUp(t.Context(), d))
				d = again(t, d, q)
			}
			if d.Work == settle.WorkClaimed { // its attempt may still be under way
				return
			}
			require.Equal(t, settle.WorkSubmit, d.Work)
			require.Equal(t, body("A-1"), d.Intent.Body)
			settleAs(t, q, d, report(order.Accepted, d.History))
			requireDrained(t, q)
			require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())
			for _, left := range lettersOf(t, q, "A-1") {
				require.True(t, left.Conflict)
			}
		})
	}
}

// Two letters of one order_no: the body in doubt, and a correction that was withheld. They can be replayed in this order.
func TestReplayOfTwoLetters(t *testing.T) {
	o := settle.ReplayOptions{ResubmitUnknown: true, Person: anna}
	for name, v := range map[string]order.Verdict{"the first one exists": order.Accepted, "neither exists": order.Rejected} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			doubtful(t, q)
			second := withheld(t, q)
			letters := lettersOf(t, q, "A-1")
			require.Len(t, letters, 2)
			require.Equal(t, second.Seq, letters[0].Seq)
			first := letters[1]
			require.Equal(t, body("A-1"), first.Body)
			require.Equal(t, []order.Outcome{order.OutcomeUnknown, order.OutcomeUnknown}, []order.Outcome{first.Outcome, second.Outcome})
			require.Equal(t, settle.ReplayOtherInDoubt, replay(t, q, second, o))
			require.Equal(t, settle.Replayed, replay(t, q, first, o))
			require.Equal(t, settle.ReplayPending, replay(t, q, second, o))
			require.Len(t, lettersOf(t, q, "A-1"), 2)
			d := pull(t, q, 1)[0]
			r := report(v, d.History)
			r.Final = true // it proves that no such order exists
			settleAs(t, q, d, r)
			requireDrained(t, q)
			letters = lettersOf(t, q, "A-1")
			if v == order.Accepted {
				require.Len(t, letters, 1)
				require.True(t, letters[0].Conflict)
				require.Equal(t, second.Seq, letters[0].Seq)
				require.Equal(t, settle.ReplayAccepted, replay(t, q, letters[0], o))
				requireBalanced(t, q)
				return
			}
			require.Len(t, letters, 2)
			require.Equal(t, []string{fmt.Sprint("replay:", first.Seq), "i2"}, []string{letters[0].IntentID, letters[1].IntentID})
			require.Equal(t, settle.Replayed, replay(t, q, second, settle.ReplayOptions{}))
			require.Len(t, lettersOf(t, q, "A-1"), 2)
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
			requireLetters(t, q, 0)
			require.Equal(t, hashOf(t, correction("").Body), lookup(t, q, "A-1").BodyHash)
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
	require.NoError(t, deadletter.EachLetter(t.Context(), q, func(l *settle.Letter) error {
		if strings.HasSuffix(l.Subject, "not%an%encoding") {
			require.Equal(t, settle.ReplayForeign, replay(t, q, l, settle.ReplayOptions{}))
			listed = true
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

// Without a result, the letter of an order counts for nothing.
func TestReplayOfALostResult(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	stream, err := s.JetStream(t).Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), stream.CachedInfo().State.LastSeq))
	requireNoLetter(t, q, "A-1")
	require.Equal(t, settle.ReplayGone, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.True(t, gone)
	require.Nil(t, lookup(t, q, "A-1"))
}

// A producer publishes an intent under the ID of a letter's replay. It is that replay only if
// it has the letter's body.
func TestR5AnIDProvesNothingWithoutTheBody(t *testing.T) {
	forge := func(q *queue.Queue, l *settle.Letter, body []byte) {
		publish(t, q, settle.Intent{OrderNo: l.OrderNo, Body: body, ID: fmt.Sprintf("replay:%d", l.Seq), Batch: "forged"})
	}
	requireReplayed := func(q *queue.Queue, id string) {
		t.Helper()
		d := pull(t, q, 1)[0]
		require.Equal(t, id, d.Intent.ID)
		require.Equal(t, settle.WorkSubmit, d.Work)
		require.Equal(t, hashOf(t, body("A-1")), d.Order.BodyHash())
		settleAs(t, q, d, report(order.Accepted, d.History))
		requireDrained(t, q)
		require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())
		requireNoLetter(t, q, "A-1")
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

		id := fmt.Sprintf("replay:%d@%d", l.Seq, lookup(t, q, "A-1").SettledAt.UnixNano())
		require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
		require.Equal(t, settle.ReplayedBefore, replay(t, q, l, settle.ReplayOptions{}))
		requireReplayed(q, id)
	})
	t.Run("another body, while the permission is given", func(t *testing.T) {
		q := openQueue(t, startBroker(t), "w1")
		l := deadLetter(t, q, "A-1", exhaustedInDoubt())
		forge(q, l, other)
		require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}))
		require.Empty(t, lookup(t, q, "A-1").AllowedFor)
		require.Equal(t, settle.WorkWithheld, pull(t, q, 1)[0].Work)
	})
	t.Run("another body that can never be sent", func(t *testing.T) {
		q := openQueue(t, startBroker(t), "w1")
		l := deadLetter(t, q, "A-1", rejected())
		forge(q, l, []byte("no order"))
		require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{}))
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
		settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
		requireDrained(t, q)
		q.Close()
		s.Stop()
		s.Restart(t) // it has forgotten the IDs of what left the stream
		require.Equal(t, settle.Replayed, replay(t, openQueue(t, s, "w2"), l, settle.ReplayOptions{}))
	})
}

func requireDeadLetterStays(t *testing.T, q *queue.Queue, l *settle.Letter) {
	t.Helper()
	require.Equal(t, l.Seq, letterOf(t, q, l.OrderNo).Seq)
}
