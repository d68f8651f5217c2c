package importer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// replayAll puts every dead letter back into the queue.
func replayAll(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.NoError(t, deadletter.EachLetter(t.Context(), q, func(l *settle.Letter) error {
		how, err := q.Operator.Replay(t.Context(), l, settle.ReplayOptions{})
		require.Equal(t, settle.Replayed, how)
		return err
	}))
}

// TestReplayedRowsStayRows: a batch is its rows, whatever ID their orders were
// submitted under last.
func TestReplayedRowsStayRows(t *testing.T) {
	q := openQueue(t)
	refused := map[string]order.Verdict{"A-1": order.Rejected, "A-2": order.Rejected}
	done := publish(t, q, openText(t, numbered(1, 3, "1")))
	work(t, q, 3, refused)
	stands := func(outcomes map[order.Outcome]int, pending int) {
		t.Helper()
		counted, err := status.CountBatch(t.Context(), q, done.Batch)
		require.NoError(t, err)
		require.Equal(t, outcomes, counted.Outcomes)
		require.Equal(t, pending, counted.Pending)
		require.Equal(t, 3, counted.Total())
	}
	stands(map[order.Outcome]int{order.OutcomeAccepted: 1, order.OutcomeRejected: 2}, 0)

	replayAll(t, q)
	stands(map[order.Outcome]int{order.OutcomeAccepted: 1}, 2)
	imp, err := imports.ReadImport(t.Context(), q, done.Batch)
	require.NoError(t, err)
	looks := make(chan Progress, 100)
	ended := make(chan Progress, 1)
	go func() {
		p, _ := Watch(t.Context(), q, imp, func(p Progress) { looks <- p })
		ended <- p
	}()
	require.False(t, (<-looks).Ended, "two orders are in the queue again")
	delete(refused, "A-2")
	work(t, q, 2, refused)
	want := map[order.Outcome]int{order.OutcomeAccepted: 2, order.OutcomeRejected: 1}
	stands(want, 0)
	p := <-ended
	require.Equal(t, want, p.Outcomes)
	require.Equal(t, 3, p.Settled)

	p, err = Watch(t.Context(), q, imp, func(Progress) {})
	require.NoError(t, err, "of the replayed rows only the replays are there to be seen")
	require.Equal(t, want, p.Outcomes)
}

// TestAnAcceptedOrderIsEnqueuedAgain: a watch that saw the acceptance counts the row
// once, however often others enqueue the order again. A later watch counts it, too.
func TestAnAcceptedOrderIsEnqueuedAgain(t *testing.T) {
	q := openQueue(t)
	done := publish(t, q, openText(t, numbered(1, 1, "1")))
	live := newFollower(done.Batch, 1, 1, 0, nil)
	see := func() {
		entry, err := q.Ledger.Lookup(t.Context(), "A-1")
		require.NoError(t, err)
		late := newFollower(done.Batch, 1, 1, 0, nil)
		for _, f := range []*follower{live, late} {
			require.NoError(t, f.see(entry.Record))
			require.Equal(t, 1, f.p.Settled)
			require.Equal(t, map[order.Outcome]int{order.OutcomeAccepted: 1}, f.p.Outcomes)
		}
		counted, err := status.CountBatch(t.Context(), q, done.Batch)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"accepted": 1}, counted.Words())
	}
	work(t, q, 1, nil)
	see()
	for _, other := range []string{"second", "third"} {
		requireTrimmed(t, q)
		_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"1"}`), ID: other + ":1", Batch: other})
		require.NoError(t, err)
		require.NoError(t, q.Pull(t.Context(), 1, 5*time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				require.Equal(t, settle.WorkRepeat, d.Work)
				_, err := q.Worker.Repeat(context.Background(), d)
				require.NoError(t, err)
				d.Release()
			}
		}))
		entry, err := q.Ledger.Lookup(t.Context(), "A-1")
		require.NoError(t, err)
		require.Equal(t, other+":1", entry.Record.IntentID)
		see()
	}
}

// TestRowsThatConflict: another producer was first, with another body.
func TestRowsThatConflict(t *testing.T) {
	q := openQueue(t)
	done := publish(t, q, openText(t, numbered(1, 2, "1")))
	work(t, q, 2, nil)
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`), ID: "later:1", Batch: "later"})
	require.NoError(t, err)
	refuse(t, q)

	counted, err := status.CountBatch(t.Context(), q, "later")
	require.NoError(t, err)
	require.NotZero(t, counted.Last)
	require.Equal(t, &status.Counted{Outcomes: map[order.Outcome]int{}, Conflicts: 1, Last: counted.Last}, counted)
	require.Equal(t, map[string]int{outcomeConflict: 1}, counted.Words())
	counted, err = status.CountBatch(t.Context(), q, done.Batch)
	require.NoError(t, err)
	require.NotZero(t, counted.Last)
	require.Equal(t, &status.Counted{Outcomes: map[order.Outcome]int{order.OutcomeAccepted: 2}, Last: counted.Last}, counted, "they are as they were")

	p, err := Watch(t.Context(), q, &imports.Import{Batch: "later", Rows: 1, Counts: map[string]int{string(Stored): 1}}, func(Progress) {})
	require.NoError(t, err)
	require.Equal(t, 1, p.Settled)
	require.Equal(t, map[order.Outcome]int{order.OutcomeRejected: 1}, p.Outcomes)
}

// TestACorrectionOfWhatIsInDoubt: each of the two imports has the order once, whatever
// becomes of the correction.
func TestACorrectionOfWhatIsInDoubt(t *testing.T) {
	anna := settle.Person{Name: "anna"}
	for _, as := range []order.Outcome{order.OutcomeAccepted, order.OutcomeRejected} {
		t.Run(as.String(), func(t *testing.T) {
			q := openQueue(t)
			imports := []string{"first", "second"}
			follow := map[string]*follower{}
			for _, batch := range imports {
				follow[batch] = newFollower(batch, 1, 1, 0, nil)
			}
			stands := func(outcomes []order.Outcome, words ...string) {
				entry, err := q.Ledger.Lookup(t.Context(), "A-1")
				require.NoError(t, err)
				for i, batch := range imports {
					counted, err := status.CountBatch(t.Context(), q, batch)
					require.NoError(t, err)
					require.Equal(t, map[string]int{words[i]: 1}, counted.Words(), batch)
					for range 2 { // a result may be written twice
						require.NoError(t, follow[batch].see(entry.Record))
						require.Equal(t, 1, follow[batch].p.Settled, batch)
						require.Equal(t, 1, follow[batch].p.Outcomes[outcomes[i]], batch)
					}
				}
			}
			one := func(id, qty string) {
				res := q.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", ID: id + ":1", Batch: id, Body: fmt.Appendf(nil, `{"order_no":"A-1","timeout":30,"qty":%q}`, qty)}})
				require.NoError(t, res[0].Err)
			}
			one("first", "1")
			work(t, q, 1, map[string]order.Verdict{"A-1": order.Unsure})
			entry, err := q.Ledger.Lookup(t.Context(), "A-1")
			require.NoError(t, err)
			require.NoError(t, follow["first"].see(entry.Record))
			one("second", "2")
			refuse(t, q)
			unknown := []order.Outcome{order.OutcomeUnknown, order.OutcomeUnknown}
			stands(unknown, "unknown", "unknown")
			_, err = q.Operator.Resolve(t.Context(), "A-1", "", as, anna)
			require.NoError(t, err)
			if as == order.OutcomeRejected {
				stands([]order.Outcome{as, as}, "rejected", "rejected")
				return
			}
			stands([]order.Outcome{order.OutcomeAccepted, order.OutcomeRejected}, "accepted", outcomeConflict)
		})
	}
}

// refuse settles the one intent in the queue, which must not be submitted.
func refuse(t *testing.T, q *queue.Queue) {
	t.Helper()
	for done := false; !done; {
		require.NoError(t, q.Pull(t.Context(), 1, 5*time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				require.Contains(t, []settle.Work{settle.WorkConflict, settle.WorkWithheld}, d.Work)
				_, err := q.Worker.Refuse(context.Background(), d)
				require.NoError(t, err)
				d.Release()
				done = true
			}
		}))
	}
	requireTrimmed(t, q)
}

// requireTrimmed waits until every settled intent has left the queue.
func requireTrimmed(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		room, err := q.Census.Room(t.Context())
		return err == nil && room.Msgs == 0
	}, time.Minute, 10*time.Millisecond)
}

// TestRateLeavesOutWhatWasThere: a watch of orders that were settled before it
// began has no rate to tell.
func TestRateLeavesOutWhatWasThere(t *testing.T) {
	q := openQueue(t)
	done := publish(t, q, openText(t, numbered(1, 3, "1")))
	work(t, q, 2, nil)
	imp, err := imports.ReadImport(t.Context(), q, done.Batch)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	p, err := Watch(ctx, q, imp, func(Progress) { stop() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, p.Settled)
	p.Elapsed += time.Second
	require.Zero(t, p.Rate())
	require.Zero(t, p.Left())
	p.Settled++
	require.InDelta(t, 1, p.Rate(), 1e-9)
}
