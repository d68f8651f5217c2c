package importer

import (
	"context"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// TestResults: every row in the file's order, in the file's manner, with what
// became of it; nothing in it runs as a formula.
func TestResults(t *testing.T) {
	q := openQueue(t)
	publish(t, q, openText(t, joined("order_no,timeout,note", "A-6,30,old", "A-7,30,old")))
	work(t, q, 2, map[string]order.Verdict{"A-7": order.Unsure})
	content := "\ufeff" + strings.ReplaceAll(joined("order_no;timeout;=note", "A-1;30;=1+1", "A-2;30;-5", "A-3;soon;x", ";;", "A-4;30;\"a;b\"", "A-5;30;", "A-6;30;new", "A-7;30;new", "A-8;30;x"), "\n", "\r\n")
	f := openText(t, content, skipInvalid, func(o *Options) { o.Batch = "march" })
	done := publish(t, q, f)
	require.Equal(t, map[Fate]int{Stored: 5, Invalid: 1, Conflict: 2}, done.Fates)
	work(t, q, 4, map[string]order.Verdict{"A-2": order.Rejected, "A-4": order.Unsure, "A-5": order.Duplicate})

	var out strings.Builder
	tally, err := f.WriteResults(t.Context(), q, &out, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, Tally{"accepted": 1, "rejected": 2, "unknown": 1, outcomeConflict: 2, outcomePending: 1, outcomeNothing: 1}, tally)
	require.Equal(t, 1, tally.Open())
	require.False(t, tally.AllAccepted())
	const first, last = "2027-01-15T08:00:00.000Z", "2027-01-15T08:00:01.000Z"
	when := ";1;" + first + ";" + last + ";'=x;"
	require.Equal(t, strings.Join([]string{
		"\ufefforder_no;timeout;'=note;_outcome;_verdict;_status;_reason;_attempts;_first_attempt_at;_last_attempt_at;_response;_created;_batch",
		"A-1;30;'=1+1;accepted;accepted;200;as told" + when + "yes;march",
		"A-2;30;-5;rejected;rejected;200;as told" + when + "no;march",
		`A-3;soon;x;not-enqueued;;;"wrong_type: column timeout: ""soon"" is not a whole number such as 30";;;;;no;`,
		`A-4;30;"a;b";unknown;unsure;200;as told` + when + "unknown;march",
		"A-5;30;;rejected;duplicate;200;as told" + when + "existed before;march",
		"A-6;30;new;conflict;accepted;200;the order_no has an order already, with other fields, whose outcome is accepted (submission " + batchOf(t, q, "A-6") + ":1)" + when + "existed before;" + batchOf(t, q, "A-6"),
		"A-7;30;new;conflict;unsure;200;the order_no has an order already, with other fields, whose outcome is unknown (submission " + batchOf(t, q, "A-7") + ":2)" + when + "unknown;" + batchOf(t, q, "A-7"),
		"A-8;30;x;pending;;;waits for a worker;;;;;no;march",
		"",
	}, "\r\n"), out.String())

	results := openText(t, out.String(), skipInvalid)
	_, err = results.Check(t.Context())
	require.NoError(t, err)
	_, header := results.original()
	require.Equal(t, []string{"order_no", "timeout", "=note"}, header, "an import undoes it")

	imp, err := imports.ReadImport(t.Context(), q, "march")
	require.NoError(t, err)
	again, err := Reopen(strings.NewReader(content), imp, t.TempDir())
	require.NoError(t, err)
	_, err = again.Check(t.Context())
	require.NoError(t, err)
	var same strings.Builder
	_, err = again.WriteResults(t.Context(), q, &same, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, out.String(), same.String(), "what is remembered of the import is enough to read it again")
	_, err = Reopen(strings.NewReader(content+" "), imp, t.TempDir())
	require.ErrorContains(t, err, "is not the file that was imported as batch march")
}

func batchOf(t *testing.T, q *queue.Queue, no string) string {
	t.Helper()
	e, err := q.Ledger.Lookup(t.Context(), no)
	require.NoError(t, err)
	return e.Record.Batch
}

// TestResultsOfNDJSON: a table with the order numbers.
func TestResultsOfNDJSON(t *testing.T) {
	q := openQueue(t)
	f := openText(t, joined(`{"order_no":"A-1","timeout":30}`, `{"order_no":"A-2","timeout":30}`))
	publish(t, q, f)
	work(t, q, 2, nil)
	var out strings.Builder
	tally, err := f.WriteResults(t.Context(), q, &out, FormatCSV)
	require.NoError(t, err)
	require.True(t, tally.AllAccepted())
	require.True(t, strings.HasPrefix(out.String(), "order_no,_outcome,"), out.String())
	require.Contains(t, out.String(), "\nA-2,accepted,accepted,200,")
	lines, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines[2], 1+len(resultColumns))
}

// TestWait ends when the rows of this import are settled, and not before.
func TestWait(t *testing.T) {
	q := openQueue(t)
	meetKnown(t, q)
	done := publish(t, q, openText(t, numbered(3, 30, "2")))
	require.Equal(t, 24, done.waits, "A-3, A-4 and the new ones")
	var seen []Progress
	shown := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := done.Wait(t.Context(), q, func(p Progress) {
			seen = append(seen, p)
			select {
			case shown <- struct{}{}:
			default:
			}
		})
		ended <- err
	}()
	<-shown
	work(t, q, 26, map[string]order.Verdict{"A-4": order.Rejected, "A-30": order.Unsure})
	require.NoError(t, <-ended)
	require.False(t, seen[0].Ended)
	require.Zero(t, seen[0].Workers, "nobody said to be there")
	last := seen[len(seen)-1]
	require.True(t, last.Ended)
	require.Equal(t, 24, last.Settled)
	require.Equal(t, map[order.Outcome]int{order.OutcomeAccepted: 22, order.OutcomeRejected: 1, order.OutcomeUnknown: 1}, last.Outcomes)

	imp, err := imports.ReadImport(t.Context(), q, done.Batch)
	require.NoError(t, err)
	p, err := Watch(t.Context(), q, imp, func(Progress) {})
	require.NoError(t, err)
	require.Equal(t, last.Outcomes, p.Outcomes)
	counted, err := status.CountBatch(t.Context(), q, done.Batch)
	require.NoError(t, err)
	require.Equal(t, last.Outcomes, counted.Outcomes)
	require.Equal(t, 24, counted.Total())
}

func TestWaitInterrupted(t *testing.T) {
	q := openQueue(t)
	done := publish(t, q, openText(t, numbered(1, 3, "1")))
	ctx, stop := context.WithCancel(t.Context())
	_, err := done.Wait(ctx, q, func(Progress) { stop() })
	require.ErrorIs(t, err, context.Canceled)
	counted, err := status.CountBatch(t.Context(), q, done.Batch)
	require.NoError(t, err)
	require.Equal(t, 3, counted.Pending)
}

// TestCancelledImport: what was not posted is withdrawn and stays so when
// the command is run again, until somebody says otherwise.
func TestCancelledImport(t *testing.T) {
	s := startBroker(t)
	q := connect(t, s, "test")
	content := numbered(1, 700, "1")
	f := openText(t, content)
	publish(t, q, f)
	work(t, q, 50, nil)
	besideWorker(t, s, func() {
		c, err := imports.CancelBatch(t.Context(), q, f.Batch, "test")
		require.NoError(t, err)
		require.Equal(t, imports.Cancelled{Withdrawn: 650}, c)
	})
	again := openText(t, content)
	sum, err := again.Check(t.Context())
	require.NoError(t, err)
	_, err = again.Publish(t.Context(), q, sum)
	require.ErrorIs(t, err, ErrCancelled)
	done := publish(t, q, openText(t, content, func(o *Options) { o.RetryFailed = true }))
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 50, Retried: 650}, done.Fates)
	work(t, q, 650, nil)
	audit, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	require.EqualValues(t, 1350, audit.Intents)
}

// TestCancelStopsARun: a wrong file can be stopped while it is being imported.
func TestCancelStopsARun(t *testing.T) {
	b := startBroker(t)
	q := connect(t, b, "test")
	stopped := false
	f := openText(t, numbered(1, 40*chunkRows, "1"), func(o *Options) {
		o.Rate = 5_000
		o.Progress = func(rows int) {
			if !stopped && rows >= chunkRows {
				stopped = true
				_, err := imports.CancelBatch(t.Context(), q, o.Batch, "test")
				require.NoError(t, err)
			}
		}
		o.Batch = "wrong"
	})
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	besideWorker(t, b, func() {
		done, err := f.Publish(t.Context(), q, s)
		require.ErrorIs(t, err, ErrCancelled)
		require.Less(t, done.Stored, 40*chunkRows)
		require.Eventually(t, func() bool { // the run waits a few seconds at most
			counts, err := q.Census.Count(t.Context())
			return err == nil && counts.Pending == 0
		}, time.Minute, 10*time.Millisecond)
	})
	counts, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	audit, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	require.EqualValues(t, counts.LastIntent, audit.Outcomes["cancelled"])
}
