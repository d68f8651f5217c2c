package imports

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/fleettest"
)

// waitIn puts intents into the waiting room.
func waitIn(t *testing.T, q *queue.Queue, batch string, n int) {
	t.Helper()
	in := make([]settle.Intent, n)
	for i := range in {
		no := fmt.Sprintf("%s-%d", batch, i)
		in[i] = settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: fmt.Sprintf("%s:%d", batch, i+1), Batch: batch, Lane: order.BulkLane}
		if i%2 == 1 {
			in[i].NotBefore = time.Now().Add(time.Hour)
		}
	}
	for _, r := range q.PublishMany(t.Context(), in) {
		require.NoError(t, r.Err)
	}
}

func waits(t *testing.T, q *queue.Queue, batch string) int {
	t.Helper()
	n, err := q.Waiting.Of(t.Context(), ImportToken(batch))
	require.NoError(t, err)
	return int(n)
}

// marksOf returns the cancellations that are stored.
func marksOf(t *testing.T, q *queue.Queue) []settle.Cancellation {
	t.Helper()
	view, err := fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	return view.Cancelled.Marks
}

// "-" is what waits of no import, moved since or not, and none of the orders that producers put
// into the queue themselves.
func TestWhatWaitsOfNoImportIsWithdrawn(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "anna")
	for i, lane := range []string{"", "", "", order.BulkLane, order.BulkLane} {
		no := fmt.Sprint("A-", i)
		p, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, ID: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), Lane: lane})
		require.NoError(t, err)
		require.Equal(t, settle.Stored, p)
	}
	page, _, err := q.Waiting.Page(t.Context(), "orders.waiting.bulk.-", 0, 1)
	require.NoError(t, err)
	room, err := q.Store().WaitingBirth(t.Context())
	require.NoError(t, err)
	_, err = q.Mover.Move(t.Context(), settle.WaitingGroup{Messages: page, Birth: room})
	require.NoError(t, err)
	would, err := WouldCancelBatch(t.Context(), q, settle.NoImport)
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 2}, would)
	fleettest.Held(t, openQueue(t, s, "w1"), RetireCancellations)
	c, err := CancelBatch(t.Context(), q, settle.NoImport, "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 2}, c)
	for i, want := range []order.Outcome{order.OutcomeNone, order.OutcomeNone, order.OutcomeNone, order.OutcomeCancelled, order.OutcomeCancelled} {
		e, err := q.Ledger.Lookup(t.Context(), fmt.Sprint("A-", i))
		require.NoError(t, err)
		require.Equal(t, want, e.Record.Outcome(), "A-%d", i)
	}
}

func TestWhatWaitsIsWithdrawn(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "anna")
	waitIn(t, q, "march", 300)
	waitIn(t, q, "april", 3)
	require.NoError(t, PauseImport(t.Context(), q, "march", "bert"))
	would, err := WouldCancelBatch(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 300}, would)
	fleettest.Held(t, openQueue(t, s, "w1"), RetireCancellations)
	c, err := CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 300}, c)
	require.Equal(t, []int{0, 3}, []int{waits(t, q, "march"), waits(t, q, "april")})
	a := requireBalanced(t, q)
	require.Equal(t, []uint64{0, 0, 300, 3}, []uint64{a.Intents, a.Settled, a.Outcomes["cancelled"], a.Waiting})
	entry, err := q.Ledger.Lookup(t.Context(), "march-1")
	require.NoError(t, err)
	require.Equal(t, []any{"cancelled", "anna", "march", "march:2"}, []any{entry.Record.Word, entry.Record.By, entry.Record.Batch, entry.Record.IntentID})
	held, err := ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Nil(t, held, "nothing is left that a pause could hold")
	c, err = CancelOrder(t.Context(), q, "april-1", "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 1}, c)
	require.Equal(t, 2, waits(t, q, "april"), "the others of the import go on")
	require.Eventually(t, func() bool { return len(marksOf(t, q)) == 0 }, time.Minute, time.Millisecond, "marks that cover nothing go")
}

// What is in the queue is settled by the worker that is given it. What an attempt may have
// created is left to its worker.
func TestWhatIsQueuedIsWithdrawn(t *testing.T) {
	s := startBroker(t)
	q, w := openQueue(t, s, "anna"), openQueue(t, s, "w1")
	publish(t, q, settle.Intent{OrderNo: "A-0", Body: body("A-0"), ID: "march:0", Batch: "march"})
	require.NoError(t, w.Pull(t.Context(), 1, time.Minute, func(ds []*settle.Delivery) {
		r := order.Report{End: order.EndSubmissionBudget, Verdict: order.Unsure, History: ds[0].History}
		r.History.Doubt("test")
		_, err := w.Worker.Settle(t.Context(), ds[0], &r, order.Decide(&r, order.Facts{}))
		require.NoError(t, err)
		ds[0].Release()
	}))
	for i := 1; i <= 20; i++ {
		no := fmt.Sprint("A-", i)
		publish(t, q, settle.Intent{OrderNo: no, Body: body(no), ID: "march:" + no, Batch: "march"})
	}
	fleettest.Held(t, w, RetireCancellations)
	would, err := WouldCancelBatch(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 20, Started: 1}, would)
	c, err := CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 20, Started: 1}, c)
}

// No worker runs. The mark stands, and the next worker settles what it covers, but nothing
// that was stored since.
func TestACancellationWithoutAWorkerStands(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "anna")
	waitIn(t, q, "march", 4)
	publish(t, q, settle.Intent{OrderNo: "A-0", Body: body("A-0"), ID: "march:0", Batch: "march"})
	require.NoError(t, SaveImport(t.Context(), q, &Import{Batch: "march", Rows: 5, Done: 5}))
	c, err := CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Open: 5, NoWorker: true}, c)
	i, err := ReadImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.False(t, i.CancelledAt.IsZero(), "a run that is under way stops")
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:again", Batch: "march"})
	fleettest.Held(t, openQueue(t, s, "w1"), RetireCancellations)
	require.Eventually(t, func() bool {
		a, err := audit.Audit(t.Context(), q)
		require.NoError(t, err)
		return a.Outcomes["cancelled"] == 5
	}, time.Minute, 5*time.Millisecond)
	pending, err := q.Ledger.IsPending(t.Context(), "A-1")
	require.NoError(t, err)
	require.True(t, pending, "it was stored after the cancellation")
}

// An import is over: its orders have their outcomes. Who cancels it then withdraws nothing, and
// it is no cancelled import.
func TestAnImportThatIsOverIsNotCancelled(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "anna")
	waitIn(t, q, "march", 4)
	require.NoError(t, SaveImport(t.Context(), q, &Import{Batch: "march", Rows: 5, Done: 4}))
	fleettest.Held(t, openQueue(t, s, "w1"), RetireCancellations)
	now := func() *Import {
		t.Helper()
		i, err := ReadImport(t.Context(), q, "march")
		require.NoError(t, err)
		return i
	}
	c, err := CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Withdrawn: 4}, c)
	require.False(t, now().CancelledAt.IsZero(), "a row is left to store")

	require.NoError(t, SaveImport(t.Context(), q, (&Import{Batch: "march", Rows: 5, Done: 5}).After(now())))
	c, err = CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Zero(t, c)
	require.True(t, now().CancelledAt.IsZero())
}

// A worker that is present does not take notice. The command names it.
func TestAWorkerThatTakesNoNoticeIsNamed(t *testing.T) {
	q := openQueue(t, startBroker(t), "anna")
	publish(t, q, settle.Intent{OrderNo: "A-0", Body: body("A-0"), ID: "march:0", Batch: "march"})
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{Worker: "deaf", ID: "1", Joined: true}))
	run, err := cancellationOf(t.Context(), q, "march")
	require.NoError(t, err)
	run.patience = time.Millisecond
	c, err := run.begin(t.Context(), "anna")
	require.NoError(t, err)
	require.Equal(t, Cancelled{Open: 1, Unaware: []string{"deaf"}}, c)
}

// Of an import of which nothing is pending, nothing is marked.
func TestNothingToCancelLeavesNoMark(t *testing.T) {
	q := openQueue(t, startBroker(t), "anna")
	c, err := CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Zero(t, c)
	require.Empty(t, marksOf(t, q))
}

// Several people cancel at once, and no mark is lost. There is a bound.
func TestCancellationsAtOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "anna")
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		no := fmt.Sprint("A-", i)
		publish(t, q, settle.Intent{OrderNo: no, Body: body(no), ID: no})
		all.Go(func() { _, errs[i] = CancelOrder(t.Context(), q, no, "anna") })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, marksOf(t, q), len(errs))
	_, err := fleet.New(q).ChangeCancellations(t.Context(), func([]settle.Cancellation) ([]settle.Cancellation, bool) {
		return make([]settle.Cancellation, 1000), false
	})
	require.NoError(t, err)
	publish(t, q, settle.Intent{OrderNo: "B-0", Body: body("B-0"), ID: "b"})
	_, err = CancelOrder(t.Context(), q, "B-0", "anna")
	require.ErrorIs(t, err, fleet.ErrCancellations)
}

func TestAPauseIsOnePersons(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	require.NoError(t, PauseImport(t.Context(), q, "march", "anna"))
	require.NoError(t, PauseImport(t.Context(), q, "march", "bert"))
	held, err := ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, "anna", held.By())
	before, err := ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, "anna", before.By())
	before, err = ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.Nil(t, before)
}

// A producer goes on while somebody lists what is in the queue of its import.
func TestTheQueuedOfAnImportAreThoseOfTheBeginning(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, settle.Intent{OrderNo: "A-0", Body: body("A-0"), ID: "march:0", Batch: "march"})
	seen := 0
	require.NoError(t, queue.EachPending(t.Context(), q, "march", func(page []*settle.Pending) error {
		if seen += len(page); seen > 3*300 {
			return errors.New("it does not end")
		}
		more := make([]settle.Intent, 300) // more than one page
		for i := range more {
			no := fmt.Sprint("A-", seen, "-", i)
			more[i] = settle.Intent{OrderNo: no, Body: body(no), ID: no, Batch: "march"}
		}
		publish(t, q, more...)
		return nil
	}))
	require.Equal(t, 1, seen)
}
