package books

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
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
	n, err := q.WaitingOf(t.Context(), ImportToken(batch))
	require.NoError(t, err)
	return int(n)
}

func balanced(t *testing.T, q *queue.Queue) *AuditResult {
	t.Helper()
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}

func TestWhatWaitsIsWithdrawn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waitIn(t, q, "march", 300)
	waitIn(t, q, "april", 3)
	would, err := WouldCancelBatch(t.Context(), q, "march")
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Withdrawn: 300}, would)
	c, err := CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Withdrawn: 300}, c)
	require.Equal(t, []int{0, 3}, []int{waits(t, q, "march"), waits(t, q, "april")})
	a := balanced(t, q)
	require.Equal(t, []uint64{0, 0, 300, 3}, []uint64{a.Intents, a.Settled, a.Outcomes["cancelled"], a.Waiting})
	entry, err := q.Lookup(t.Context(), "march-1")
	require.NoError(t, err)
	require.Equal(t, []any{"cancelled", "anna", "march", "march:2"}, []any{entry.Record.Word, entry.Record.By, entry.Record.Batch, entry.Record.IntentID})
	held, err := ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Nil(t, held)
	c, err = CancelOrder(t.Context(), q, "april-1", "anna")
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Withdrawn: 1}, c)
	require.Equal(t, 2, waits(t, q, "april"))
	held, err = ReadHold(t.Context(), q, "april")
	require.NoError(t, err)
	require.Nil(t, held, "the others of the import go on")
}

// A cancellation that is cut off leaves a hold: nobody sends the rest before somebody
// decides. The next cancellation withdraws the rest and ends the hold.
func TestACancellationThatIsCutOffHoldsTheRest(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waitIn(t, q, "march", 4)
	cut := errors.New("cut off")
	holds := &holdings{q: q, by: "anna", held: make(map[string]*holding)}
	_, err := holds.withdrawOnce(t.Context(), func(visit func([]*settle.Message) error) error {
		return EachWaiting(t.Context(), q, "march", func(page []*settle.Message) error {
			require.NoError(t, visit(page[:1]))
			return cut
		})
	})
	require.ErrorIs(t, err, cut)
	held, err := ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Regexp(t, "^anna, whose cancellation of .* is not done$", held.By())
	c, err := CancelBatch(t.Context(), q, "march", "bert")
	require.NoError(t, err)
	require.Equal(t, 3, c.Withdrawn)
	held, err = ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.Nil(t, held)
	balanced(t, q)
}

// An import that somebody lets go on is not withdrawn any further.
func TestAResumedImportIsNotWithdrawn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waitIn(t, q, "march", 4)
	holds := &holdings{q: q, by: "anna", held: make(map[string]*holding)}
	_, err := holds.withdrawOnce(t.Context(), func(visit func([]*settle.Message) error) error {
		return EachWaiting(t.Context(), q, "march", func(page []*settle.Message) error {
			require.NoError(t, visit(page[:1]))
			_, err := ResumeImport(t.Context(), q, "march")
			require.NoError(t, err)
			return visit(page[1:])
		})
	})
	require.ErrorIs(t, err, ErrResumed)
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
	require.Len(t, before, 1)
	before, err = ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.Empty(t, before)
}

// A producer goes on while its import is withdrawn. Only what was stored when the
// cancellation began is withdrawn, so it ends. The rest goes on.
func TestACancellationEndsWhileAProducerGoesOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	waitIn(t, q, "march", 6)
	now, err := waitingNow(t.Context(), q, "march")
	require.NoError(t, err)
	looks, each := 0, now.each
	now.each = func(visit func([]*settle.Message) error) error {
		if looks++; looks > 5 {
			return errors.New("it does not end")
		}
		more := []settle.Intent{{OrderNo: fmt.Sprint("later-", looks), ID: fmt.Sprint("later-", looks), Batch: "march", Lane: order.BulkLane}}
		more = append(more, more[0])
		more[1].OrderNo, more[1].ID, more[1].NotBefore = more[0].OrderNo+"t", more[0].ID+"t", time.Now().Add(time.Hour)
		for i := range more {
			more[i].Body = fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, more[i].OrderNo)
		}
		publish(t, q, more...)
		if looks == 1 {
			return nil // a replica that lags
		}
		return each(visit)
	}
	holds := &holdings{q: q, by: "anna", held: make(map[string]*holding)}
	c, err := holds.withdraw(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []int{6, 2, 4}, []int{c.Withdrawn, looks, waits(t, q, "march")})
	require.NoError(t, holds.end(t.Context()))
	balanced(t, q)
}

// The same of what is in the queue.
func TestTheQueuedOfAnImportAreThoseOfTheBeginning(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, settle.Intent{OrderNo: "A-0", Body: body("A-0"), ID: "march:0", Batch: "march"})
	seen := 0
	require.NoError(t, EachPending(t.Context(), q, "march", func(page []*settle.Pending) error {
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
