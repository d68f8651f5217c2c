package uploads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/fleettest"
	"orderpost/internal/testing/queuetest"
)

// work settles n intents as accepted.
func work(t testing.TB, q *queue.Queue, n int) {
	t.Helper()
	for n > 0 {
		var all errgroup.Group
		require.NoError(t, q.Pull(t.Context(), min(n, 500), 5*time.Second, func(ds []*settle.Delivery) {
			n -= len(ds)
			for _, d := range ds {
				all.Go(func() error {
					defer d.Release()
					h := d.History
					h.Attempts++
					h.FirstAttemptAt, h.LastAttemptAt = time.Unix(1_800_000_000, 0), time.Unix(1_800_000_001, 0)
					r := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, Response: "=x", History: h}
					_, err := q.Worker.Settle(context.Background(), d, &r, order.Decide(&r, order.Facts{}))
					return err
				})
			}
		}))
		require.NoError(t, all.Wait())
	}
	require.Eventually(t, func() bool { // as the worker does beside its orders
		_ = q.Trimmer.Trim(t.Context())
		room, err := q.Census.Room(t.Context())
		_, pending := counted(t, q)
		return err == nil && uint64(room.Msgs) == pending
	}, time.Minute, 5*time.Millisecond)
}

func counted(t testing.TB, q *queue.Queue) (stored, pending uint64) {
	t.Helper()
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	return c.LastIntent, c.Pending
}

// TestImport: a file with bad rows from upload to results, with the ids of enqueue.
func TestImport(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	content := numbered(1, 1200) + "U-1300,x,1\n"
	u := keep(t, d.store, "orders.csv", content)
	err := d.Import(t.Context(), u.ID, anna, "", importer.Sending{Direct: true})
	require.Equal(t, Unready, KindOf(err))
	require.ErrorContains(t, err, "check it first")
	require.NoError(t, d.Check(u.ID, anna, ""))
	u = finished(t, d, u.ID)
	err = d.Import(t.Context(), u.ID, anna, "", importer.Sending{Direct: true})
	require.ErrorContains(t, err, "1 rows are bad; correct them and upload the file again, or choose to skip them")
	_, err = d.Results(t.Context(), u.ID, &bytes.Buffer{})
	require.Equal(t, Unready, KindOf(err))

	u = imported(t, d, u.ID, importer.Sending{Direct: true, SkipInvalid: true})
	require.Equal(t, Done, u.Import.State, u.Import.Error)
	require.Equal(t, map[importer.Fate]int{importer.Stored: 1200, importer.Invalid: 1}, u.Import.Summary.Fates)
	imp, err := imports.ReadImport(t.Context(), q, u.Import.Batch)
	require.NoError(t, err)
	require.Equal(t, "anna", imp.By)
	require.Equal(t, "orders.csv", imp.File)
	var ids []string
	require.NoError(t, queue.EachPending(t.Context(), q, u.Import.Batch, func(page []*settle.Pending) error {
		for _, p := range page {
			ids = append(ids, p.ID)
		}
		return nil
	}))
	require.Len(t, ids, 1200)
	require.Contains(t, ids, u.Import.Batch+":1")

	// enqueue with the same file, and the same file uploaded by somebody else.
	f, err := importer.Open(strings.NewReader(content), importer.Options{File: "x.csv", Sending: importer.Sending{SkipInvalid: true}})
	require.NoError(t, err)
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	done, err := f.Publish(t.Context(), q, s)
	require.NoError(t, err)
	require.Equal(t, u.Import.Batch, f.Batch)
	require.Zero(t, done.Stored)
	again := checked(t, d, "copy.csv", content)
	again = imported(t, d, again.ID, importer.Sending{Direct: true, SkipInvalid: true})
	require.Equal(t, 1200, again.Import.Summary.Fates[importer.AlreadyPending])
	stored, pending := counted(t, q)
	require.EqualValues(t, 1200, stored)
	require.EqualValues(t, 1200, pending)

	// The results are final, and the upload goes, only when every order has its outcome.
	var results bytes.Buffer
	tally, err := d.Results(t.Context(), u.ID, &results)
	require.NoError(t, err)
	require.Equal(t, importer.Tally{"pending": 1200, "not-enqueued": 1}, tally)
	u, err = d.store.Get(u.ID)
	require.NoError(t, err)
	require.Zero(t, u.FetchedAt)
	work(t, q, 1200)
	results.Reset()
	tally, err = d.Results(t.Context(), u.ID, &results)
	require.NoError(t, err)
	require.Equal(t, importer.Tally{"accepted": 1200, "not-enqueued": 1}, tally)
	require.Equal(t, 1202, strings.Count(results.String(), "\n"))
	require.Contains(t, results.String(), "U-1,30,1,accepted,accepted,200,")
	require.Contains(t, results.String(), "'=x", "no spreadsheet runs it")
	require.Equal(t, "orders.results.csv", u.ResultsNameAs(importer.FormatCSV))
	u, err = d.store.Get(u.ID)
	require.NoError(t, err)
	require.NotZero(t, u.FetchedAt)
	require.Equal(t, []string{u.ID}, expired(d.store, u.FetchedAt.Add(DefaultGrace+time.Second)))
	other, ok := d.store.OfBatch(u.Import.Batch)
	require.True(t, ok)
	require.Equal(t, again.ID, other.ID, "the latest")
}

// startImport starts an import and waits until so many rows are in the queue.
func startImport(t *testing.T, d *Desk, q *queue.Queue, id string, o importer.Sending, rows uint64) {
	t.Helper()
	require.NoError(t, d.Import(t.Context(), id, anna, "", o))
	require.Eventually(t, func() bool {
		c, err := q.Census.Count(t.Context())
		return err == nil && c.LastIntent >= rows
	}, time.Minute, 5*time.Millisecond)
}

// TestStoppedAndResumed: by a person, by the end of the console, and by a kill of it.
func TestStoppedAndResumed(t *testing.T) {
	const rows = 10_000 // at a thousand a second
	q := connect(t, startBroker(t))
	dir := t.TempDir()
	s := openStore(t, dir)
	d := openDesk(t, s, q)
	u := checked(t, d, "orders.csv", numbered(1, rows))
	slow := importer.Sending{Direct: true, Rate: 1000}
	startImport(t, d, q, u.ID, slow, 500)
	job := d.Job(u.ID)
	require.NotNil(t, job)
	require.Equal(t, ImportKind, job.Kind)
	require.Equal(t, Importing, job.Progress().Step)
	require.EqualValues(t, rows, job.Progress().Of)
	require.Equal(t, Busy, KindOf(d.Import(t.Context(), u.ID, anna, "", slow)))
	require.Equal(t, Busy, KindOf(d.Check(u.ID, anna, "")))
	same := checked(t, d, "same.csv", numbered(1, rows))
	err := d.Import(t.Context(), same.ID, anna, "", slow)
	require.ErrorContains(t, err, "is being imported from another upload of the same file")
	require.NoError(t, d.Stop(t.Context(), u.ID, Person{Name: "ben"}, ""))
	u, err = d.store.Get(u.ID)
	require.NoError(t, err)
	require.Equal(t, Interrupted, u.Import.State)
	require.Equal(t, "stopped by ben", u.Import.Error)

	startImport(t, d, q, u.ID, slow, 2500)
	d.jobs.Close()
	d.Close()
	require.NoError(t, s.Close())
	s = openStore(t, dir)
	d = openDesk(t, s, q)
	u, err = s.Get(u.ID)
	require.NoError(t, err)
	require.Equal(t, Interrupted, u.Import.State)
	require.Equal(t, "its process was stopped", u.Import.Error)

	// A kill leaves what the disk says.
	_, err = s.update(u.ID, func(u *Upload) { next := *u.Import; next.State = Running; u.Import = &next })
	require.NoError(t, err)
	d.jobs.Close()
	d.Close()
	require.NoError(t, s.Close())
	s = openStore(t, dir)
	d = openDesk(t, s, q)
	u, err = s.Get(u.ID)
	require.NoError(t, err)
	require.Equal(t, Interrupted, u.Import.State)
	require.Equal(t, "its process ended in the middle of the import", u.Import.Error)

	u = imported(t, d, u.ID, importer.Sending{Direct: true})
	require.Equal(t, Done, u.Import.State)
	require.GreaterOrEqual(t, u.Import.Summary.Resumed, 2500-500*4)
	fates := u.Import.Summary.Fates
	require.Equal(t, rows, fates[importer.Stored]+fates[importer.AlreadyPending]+fates[importer.AlreadyKnown])
	stored, _ := counted(t, q)
	require.EqualValues(t, rows, stored, "each row once")
}

// TestBrokerRestarts: the import waits for the broker and goes on by itself.
func TestBrokerRestarts(t *testing.T) {
	const rows = 8000 // at a thousand a second
	broker := startBroker(t)
	connect(t, broker) // creates the streams
	q := connect(t, broker, queuetest.AsCommand)
	d := openDesk(t, openStore(t, t.TempDir()), q)
	u := checked(t, d, "orders.csv", numbered(1, rows))
	startImport(t, d, q, u.ID, importer.Sending{Direct: true, Rate: 1000}, 500)
	broker.Stop()
	require.Eventually(t, func() bool {
		job := d.Job(u.ID)
		if job == nil {
			u, _ = d.store.Get(u.ID)
			require.FailNow(t, "it does not give up", u.Import.Error)
		}
		return job.Progress().Hindrance != ""
	}, time.Minute, 5*time.Millisecond)
	broker.Restart(t)
	u = finished(t, d, u.ID)
	require.Equal(t, Done, u.Import.State, u.Import.Error)
	stored, _ := counted(t, q)
	require.EqualValues(t, rows, stored, "each row once")
}

// TestCancel: a cancelled import stops at once, and nothing of it is posted.
func TestCancel(t *testing.T) {
	s := startBroker(t)
	q := connect(t, s)
	d := openDesk(t, openStore(t, t.TempDir()), q)
	u := checked(t, d, "orders.csv", numbered(1, 4000))
	startImport(t, d, q, u.ID, importer.Sending{Direct: true, Rate: 500}, 300)
	stop := fleettest.Held(t, connect(t, s), imports.RetireCancellations)
	c, err := d.CancelBatch(t.Context(), u.Checked.Summary.Batch, anna)
	require.NoError(t, err)
	queuetest.Drained(t, q) // nobody frees the order numbers once the worker has gone
	stop()
	stored, pending := counted(t, q)
	require.Less(t, stored, uint64(4000))
	require.Zero(t, pending)
	require.Equal(t, imports.Cancelled{Withdrawn: int(stored)}, c)
	u, err = d.store.Get(u.ID)
	require.NoError(t, err)
	require.Equal(t, Cancelled, u.Import.State)
	require.Equal(t, "cancelled by anna", u.Import.Error)

	u = imported(t, d, u.ID, importer.Sending{Direct: true})
	require.Equal(t, Cancelled, u.Import.State, "only a person's choice sends it again")
	u = imported(t, d, u.ID, importer.Sending{Direct: true, RetryFailed: true})
	require.Equal(t, Done, u.Import.State, u.Import.Error)
	_, pending = counted(t, q)
	require.EqualValues(t, 4000, pending)
}

// TestOtherContent: a batch's name belongs to its first file.
func TestOtherContent(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	march := importer.Reading{Batch: "march"}
	imported(t, d, checked(t, d, "a.csv", numbered(1, 2), march).ID, importer.Sending{Direct: true})
	u := imported(t, d, checked(t, d, "b.csv", numbered(3, 4), march).ID, importer.Sending{Direct: true})
	require.Equal(t, Failed, u.Import.State)
	require.Contains(t, u.Import.Error, "choose another name for the batch")
}

// TestJournal: the intention comes before the first effect, and the result after the
// last.
func TestJournal(t *testing.T) {
	q := connect(t, startBroker(t))
	var lines []string
	var refuse error
	all := jobs.NewJobs(t.Context())
	d := NewDesk(openStore(t, t.TempDir()), q, all, func(_ context.Context, in journal.Intention) (func(context.Context, journal.Result), error) {
		stored, _ := counted(t, q)
		lines = append(lines, fmt.Sprintf("%s of %s: %d stored", in.Actor.Name, in.Details["file"], stored))
		return func(_ context.Context, r journal.Result) { lines = append(lines, fmt.Sprintf("%+v", r)) }, refuse
	})
	defer d.Close()
	defer all.Close()
	u := checked(t, d, "a.csv", numbered(1, 2))
	refuse = errors.New("the journal cannot be written")
	require.ErrorIs(t, d.Import(t.Context(), u.ID, anna, "", importer.Sending{Direct: true}), refuse)
	stored, _ := counted(t, q)
	require.Zero(t, stored)
	refuse, lines = nil, nil
	imported(t, d, u.ID, importer.Sending{Direct: true})
	require.Equal(t, []string{"anna of a.csv: 0 stored", "{End:done Counts:map[stored:2] Error: ApprovedBy:[]}"}, lines)
}

// TestTimesThatPassedSinceTheCheck: the import says so instead of sending at once, or
// leaving rows out that nobody saw. One that has begun goes on.
func TestTimesThatPassedSinceTheCheck(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	at := time.Now().Add(-time.Hour).UTC()
	u := checked(t, d, "orders.csv", fmt.Sprintf("order_no,timeout,_not_before\nA-1,30,\nA-2,30,%s\n", at.Format(time.RFC3339)))
	require.Equal(t, 1, u.Checked.Summary.Invalid)
	require.Equal(t, importer.CodeTime, u.Checked.Bad[0].Code)
	require.NotContains(t, u.Checked.Bad[0].Message, "--")
	_, err := d.store.update(u.ID, func(u *Upload) { // as if it was checked before
		earlier := *u.Checked
		earlier.At, earlier.Summary.Invalid = at.Add(-time.Minute), 0
		u.Checked = &earlier
	})
	require.NoError(t, err)
	for _, o := range []importer.Sending{{}, {SkipInvalid: true}} {
		u = imported(t, d, u.ID, o)
		require.Equal(t, Failed, u.Import.State)
		require.Contains(t, u.Import.Error, "the times of some rows are over since the file was checked, so nothing was imported; check it again")
		stored, _ := counted(t, q)
		require.Zero(t, stored)
	}
	c, err := d.store.open(&u, nil)
	require.NoError(t, err)
	f, err := importer.Open(c, u.options())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, imports.SaveImport(t.Context(), q, &imports.Import{Batch: f.Batch, Fingerprint: f.Fingerprint, Content: f.Content, Rows: 2}))
	u = imported(t, d, u.ID, importer.Sending{Direct: true})
	require.Equal(t, Done, u.Import.State, u.Import.Error)
	require.Equal(t, 2, u.Import.Summary.Stored)
}
