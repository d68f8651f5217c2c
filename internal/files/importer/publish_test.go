package importer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// known are orders with every standing that an import can meet.
var known = map[string]order.Verdict{
	"A-1": order.Accepted, "A-2": order.Accepted, "A-3": order.Rejected, "A-4": order.Rejected,
	"A-5": order.Unsure, "A-6": order.Unsure,
}

// meetKnown leaves settled as known says, and pending.
func meetKnown(t *testing.T, q *queue.Queue) {
	t.Helper()
	publish(t, q, openText(t, numbered(1, 6, "1")))
	work(t, q, 6, known)
	publish(t, q, openText(t, numbered(7, 8, "1")))
}

// TestKnownOrders is the table of an import: equal bodies are told, changed
// ones are corrections where that is safe, and conflicts elsewhere.
func TestKnownOrders(t *testing.T) {
	q := openQueue(t)
	meetKnown(t, q)
	content := joined("order_no,timeout,qty", "A-1,30,1", "A-2,30,2", "A-3,30,1", "A-4,30,2", "A-5,30,1", "A-6,30,2", "A-7,30,1", "A-8,30,2", "A-9,30,1")
	done := publish(t, q, openText(t, content))
	require.Equal(t, map[Fate]int{
		Settled(order.OutcomeAccepted): 1, Settled(order.OutcomeRejected): 1, Settled(order.OutcomeUnknown): 1,
		Conflict: 3, Corrected: 1, AlreadyPending: 1, Stored: 1,
	}, done.Fates)
	require.Equal(t, 2, done.Stored)
	require.False(t, done.AllFine())
	for i, want := range []string{
		// The body of A-2 is not kept, and no mapping makes it of this row.
		"row 2: conflict: this order_no has an order already, which is accepted; its fields differ. Restore the row or leave it out: under another order_no it would be a second order",
		"row 6: conflict: this order_no has an order already, which is unknown: nobody knows whether it was created; qty is \"1\" there and \"2\" here.",
		"row 8: conflict: this order_no has an order already, which is pending; qty is \"1\" there and \"2\" here.",
	} {
		require.Contains(t, done.Errors[i], want)
	}
	require.Equal(t, 1, done.foreign, "A-7 is another import's")
	require.Equal(t, 2, done.waits)

	// The correction and the new order are submitted; the rest is left alone.
	work(t, q, 4, nil)
	again := publish(t, q, openText(t, content))
	require.Equal(t, map[Fate]int{
		Settled(order.OutcomeAccepted): 4, Settled(order.OutcomeRejected): 1, Settled(order.OutcomeUnknown): 1, Conflict: 3,
	}, again.Fates)
	require.Zero(t, again.Stored)
}

// TestAcceptedStaysAccepted: an intent with another body that somebody
// published later is no conflict of the row that was accepted.
func TestAcceptedStaysAccepted(t *testing.T) {
	q := openQueue(t)
	f := openText(t, numbered(1, 1, "1"))
	publish(t, q, f)
	work(t, q, 1, nil)
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"9"}`), ID: "other"})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 1}, publish(t, q, openText(t, numbered(1, 1, "1"))).Fates)
	require.Equal(t, map[Fate]int{Conflict: 1}, publish(t, q, openText(t, numbered(1, 1, "9"))).Fates)
	tally, err := f.WriteResults(t.Context(), q, nil, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, Tally{"accepted": 1}, tally)
}

// TestPermissionOfAnotherSubmission: a replay was cut off after its permission was
// written. A row that is published then would be withheld by the workers.
func TestPermissionOfAnotherSubmission(t *testing.T) {
	f := openText(t, numbered(1, 1, "1"))
	rows, err := f.Preview(t.Context(), 1)
	require.NoError(t, err)
	p := &publisher{f: f}
	rec := &order.Record{IntentID: "i1", BodyHash: rows[0].Order.BodyHash(), AllowedFor: "replay:1"}
	rec.SetOutcome(order.OutcomeUnknown)
	v, published := p.decide(&rows[0], &status.OrderStatus{LastWord: settle.LastWord{Entry: settle.Entry{Record: rec}}})
	require.False(t, published)
	require.Equal(t, Settled(order.OutcomeUnknown), v.fate)
}

// TestRetryFailed enqueues what certainly failed, once, and nothing else.
func TestRetryFailed(t *testing.T) {
	q := openQueue(t)
	content := numbered(1, 6, "1")
	publish(t, q, openText(t, content))
	work(t, q, 6, known)
	retry := func(o *Options) { o.RetryFailed = true }
	done := publish(t, q, openText(t, content, retry))
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 2, Settled(order.OutcomeUnknown): 2, Retried: 2}, done.Fates)
	done = publish(t, q, openText(t, content, retry))
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 2, Settled(order.OutcomeUnknown): 2, AlreadyPending: 2}, done.Fates)
	require.Equal(t, 2, done.waits, "they are this import's")
	work(t, q, 2, nil)
	done = publish(t, q, openText(t, content))
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 4, Settled(order.OutcomeUnknown): 2}, done.Fates)
}

// stopAfter ends the context of an import when so many rows are done.
func stopAfter(rows int, stop context.CancelFunc) func(*Options) {
	return func(o *Options) {
		o.Progress = func(done int) {
			if done >= rows {
				stop()
			}
		}
	}
}

// TestInterruptedImports: stopped at five points and run again, the stream
// holds each row once, while a worker settles some in between.
func TestInterruptedImports(t *testing.T) {
	q := openQueue(t)
	const rows = 30*chunkRows + 100
	content := numbered(1, rows, "1")
	for i, after := range []int{1, 2 * chunkRows, 2*chunkRows + 1, 6 * chunkRows, 9 * chunkRows} {
		ctx, stop := context.WithCancel(t.Context())
		f := openText(t, content, stopAfter(after, stop))
		s, err := f.Check(t.Context())
		require.NoError(t, err)
		done, err := f.Publish(ctx, q, s)
		stop()
		require.ErrorIs(t, err, context.Canceled)
		imp, err := imports.ReadImport(t.Context(), q, f.Batch)
		require.NoError(t, err)
		require.GreaterOrEqual(t, imp.Done, after, "what was confirmed is written down")
		require.Equal(t, i > 0, done.Resumed > 0)
		work(t, q, 100, nil)
	}
	done := publish(t, q, openText(t, content))
	require.GreaterOrEqual(t, done.Resumed, 9*chunkRows)
	require.Equal(t, rows, done.Fates[Stored]+done.Fates[AlreadyPending]+done.Fates[AlreadyKnown]+done.Fates[Settled(order.OutcomeAccepted)])
	counts, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, rows, counts.LastIntent, "each row once")
	work(t, q, rows-500, nil)
	audit, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	require.EqualValues(t, rows, audit.Outcomes["accepted"])
}

// TestCheckpointLost: without the checkpoint, and with the broker's memory of
// recent submissions, each row is still recognised.
func TestCheckpointLost(t *testing.T) {
	q := openQueue(t)
	content := numbered(1, 3*chunkRows, "1")
	first := openText(t, content)
	publish(t, q, first)
	imp, err := imports.ReadImport(t.Context(), q, first.Batch)
	require.NoError(t, err)
	imp.Done, imp.Counts = chunkRows, nil
	require.NoError(t, imports.SaveImport(t.Context(), q, imp))
	done := publish(t, q, openText(t, content))
	require.Equal(t, chunkRows, done.Resumed)
	require.Equal(t, map[Fate]int{AlreadyKnown: 2 * chunkRows}, done.Fates)
	require.Equal(t, 3*chunkRows, done.waits)
}

func TestBatchOfAnotherFile(t *testing.T) {
	q := openQueue(t)
	march := func(o *Options) { o.Batch = "march" }
	publish(t, q, openText(t, numbered(1, 2, "1"), march))
	f := openText(t, numbered(1, 2, "2"), march)
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	_, err = f.Publish(t.Context(), q, s)
	require.ErrorIs(t, err, ErrOtherContent)
	require.ErrorContains(t, err, "march")
}

// TestForgotten: an import whose results have expired is not sent a second
// time by running it again.
func TestForgotten(t *testing.T) {
	q := openQueue(t)
	content := numbered(1, 3, "1")
	f := openText(t, content)
	require.NoError(t, imports.SaveImport(t.Context(), q, &imports.Import{Batch: f.Batch, Fingerprint: f.Fingerprint, Rows: 3, Done: 3}))
	done := publish(t, q, openText(t, content))
	require.Equal(t, map[Fate]int{Forgotten: 3}, done.Fates)
	require.False(t, done.AllFine())
}

// TestWhatWasInHandWhenTheQueueWasLost can be enqueued again: its note does not keep its place.
// While its intent is stored, it does.
func TestWhatWasInHandWhenTheQueueWasLost(t *testing.T) {
	s := startBroker(t)
	q := connect(t, s, "test")
	content := numbered(1, 3, "1")
	batch := func(name string) func(*Options) { return func(o *Options) { o.Batch = name } }
	publish(t, q, openText(t, content, batch("march")))
	require.NoError(t, q.Pull(t.Context(), 3, 5*time.Second, func(ds []*settle.Delivery) {
		for _, d := range ds {
			if d.OrderNo() == "A-3" { // its worker is killed in an attempt
				require.NoError(t, q.Worker.NoteAttempt(t.Context(), d, d.History))
				continue
			}
			report := order.Report{End: order.EndHandBack, Verdict: order.Retry, History: order.History{Attempts: 1}}
			_, err := q.Worker.Settle(t.Context(), d, &report, order.Decide(&report, order.Facts{}))
			require.NoError(t, err)
			d.Release()
		}
	}))
	done := publish(t, q, openText(t, content, batch("april")))
	require.Equal(t, map[Fate]int{AlreadyPending: 3}, done.Fates)

	stream, err := s.JetStream(t).Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	publish(t, q, openText(t, numbered(4, 4, "1"))) // the queue is not empty
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = done.Wait(within, q, func(Progress) {})
	require.NoError(t, err, "what was lost is not waited for")
	work(t, q, 1, nil)
	march := openText(t, content, batch("march"))
	_, err = march.Check(t.Context())
	require.NoError(t, err)
	var results strings.Builder
	_, err = march.WriteResults(t.Context(), q, &results, FormatCSV)
	require.NoError(t, err)
	for i, want := range []string{"A-1,30,1,not-enqueued,.* and no attempt created it; import the file again.*,no,march", "A-2,30,1,not-enqueued,.*,no,march", "A-3,30,1,unknown,.* and an attempt may have created it; ask.*,unknown,march"} {
		require.Regexp(t, want, strings.Split(results.String(), "\n")[i+1])
	}
	other := openText(t, numbered(3, 3, "2"))
	_, err = other.Check(t.Context())
	require.NoError(t, err)
	tally, err := other.WriteResults(t.Context(), q, nil, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, Tally{outcomeConflict: 1}, tally)
	done = publish(t, q, openText(t, numbered(3, 3, "2"), batch("other")))
	require.Equal(t, map[Fate]int{Conflict: 1}, done.Fates, "it may exist with its first body")
	done = publish(t, q, openText(t, content, batch("may")))
	require.Equal(t, map[Fate]int{Stored: 3}, done.Fates)
	work(t, q, 3, nil)
	again := publish(t, q, openText(t, content, batch("june")))
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 3}, again.Fates)
}

// TestQueueIsFull: the import stops, says so, and goes on when there is room.
func TestQueueIsFull(t *testing.T) {
	q := openQueue(t, func(c *queue.Config) { c.MaxIntents = 700 })
	content := numbered(1, 2*chunkRows, "1")
	f := openText(t, content, func(o *Options) { o.FullWait = time.Millisecond })
	sum, err := f.Check(t.Context())
	require.NoError(t, err)
	done, err := f.Publish(t.Context(), q, sum)
	require.ErrorIs(t, err, ErrInterrupted)
	require.ErrorIs(t, err, settle.ErrFull)
	require.ErrorContains(t, err, "no order was settled for 1ms: stopped")
	require.Less(t, done.Stored, 2*chunkRows)
	again := openText(t, content)
	sum, err = again.Check(t.Context())
	require.NoError(t, err)
	published := make(chan error, 1)
	go func() { // waits for the orders to be settled
		var err error
		done, err = again.Publish(t.Context(), q, sum)
		published <- err
	}()
	work(t, q, 700, nil)
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context()) // as a worker goes on to do
		return len(published) == 1
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, <-published)
	require.Positive(t, done.Stored)
	work(t, q, 300, nil)
	counts, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2*chunkRows, counts.LastIntent, "each row once")
	require.EqualValues(t, 2*chunkRows, counts.Results)
}

func TestRate(t *testing.T) {
	q := openQueue(t)
	begun := time.Now()
	done := publish(t, q, openText(t, numbered(1, 60, "1"), func(o *Options) { o.Rate = 100 }))
	require.Equal(t, 60, done.Stored)
	// 20 go at once, the other 40 at 100 a second: no sooner than 0.4 s.
	require.GreaterOrEqual(t, time.Since(begun), 400*time.Millisecond)
}

// "-" is what belongs to no import, which needs no approval. So no import is called that.
func TestNoImportIsCalledNoImport(t *testing.T) {
	require.ErrorContains(t, CheckBatch(settle.NoImport), `"-" stands for orders of no import`)
	require.NoError(t, CheckBatch("-march"))
	require.Error(t, CheckBatch(""))
}
