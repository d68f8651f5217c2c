package importer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/audit"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// TestTheWaitingRoomIsFull: the import stops, says which stream is full, and goes on
// when a feeder has made room. Orders that go straight to the queue still do.
func TestTheWaitingRoomIsFull(t *testing.T) {
	const room = 700
	q := openQueue(t)
	require.NoError(t, q.Census.LimitWaitingRoom(t.Context(), room, -1))
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "w1", Since: time.Now().UTC(), Open: true, Joined: true}))
	run := func(content string, change ...func(*Options)) (*Result, error) {
		f := openText(t, content, change...)
		sum, err := f.Check(t.Context())
		require.NoError(t, err)
		return f.Publish(t.Context(), q, sum)
	}
	inLane := func(o *Options) { o.Direct = false }
	content := numbered(1, 2*chunkRows, "1")
	_, err := run(content, inLane, func(o *Options) { o.FullWait = time.Millisecond })
	require.ErrorIs(t, err, ErrInterrupted)
	require.ErrorIs(t, err, settle.ErrFull)
	require.ErrorContains(t, err, "no room left in stream ORDERS_WAITING: maximum messages exceeded, and no order was settled for 1ms")
	n, err := q.Waiting.Total(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, room, n, "nothing is discarded")

	direct, err := run("order_no,timeout\nD-1,30\n")
	require.NoError(t, err)
	require.Equal(t, 1, direct.Stored)
	work(t, q, 1, nil)

	var all errgroup.Group
	all.Go(func() error { // waits for room
		_, err := run(content, inLane)
		return err
	})
	feed(t, q, 2*chunkRows)
	require.NoError(t, all.Wait())
	counts, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2*chunkRows+1, counts.LastIntent, "each row once")
	require.EqualValues(t, 2*chunkRows+1, counts.Results)
}

// feed moves n orders and settles them.
func feed(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	for moved := 0; moved < n; {
		list, _, err := q.Waiting.Now(t.Context())
		require.NoError(t, err)
		for _, w := range list {
			page, _, err := q.Waiting.Page(t.Context(), w.Subject, 0, 100)
			require.NoError(t, err)
			ends, err := q.Mover.Move(t.Context(), settle.WaitingGroup{Messages: page, Whole: true, Birth: q.Waiting.Birth()})
			require.NoError(t, err)
			for _, end := range ends {
				require.Equal(t, settle.Moved, end)
			}
			work(t, q, len(page), nil)
			moved += len(page)
		}
	}
}

// While no worker runs, an import waits: the next worker feeds.
func TestAnImportWhileNoWorkerRunsWaits(t *testing.T) {
	q := openQueue(t)
	f := openText(t, numbered(1, 5, "1"), func(o *Options) { o.Direct = false })
	sum, err := f.Check(t.Context())
	require.NoError(t, err)
	done, err := f.Publish(t.Context(), q, sum)
	require.NoError(t, err)
	require.Equal(t, 5, done.Stored)
	n, err := q.Waiting.Total(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
}

// The name of the column may stand anywhere in an order but among its own fields.
func TestOnlyAFieldOfItsOwnIsATimeInNDJSON(t *testing.T) {
	for line, want := range map[string]bool{
		`{"order_no":"A","_not_before":"2026-11-23T08:00Z"}`:    true,
		`{"order_no":"A","_not_before":null}`:                   true,
		`{"order_no":"A","note":"_not_before"}`:                 false,
		`{"order_no":"A","_not_before ":1}`:                     false,
		`{"order_no":"A","items":[{"_not_before":"tomorrow"}]}`: false,
		`{"order_no":"A"}`:                                      false,
	} {
		require.Equal(t, want, namesTime(line), line)
	}
}

// A cancellation covers what was stored when it began. The run that it stops covers
// the rest, also if it notices only when it saves its progress for the last
// time, and if it was interrupted.
func TestARunThatIsCancelledWithdrawsWhatItStored(t *testing.T) {
	for name, interrupted := range map[string]bool{"it ends": false, "it is interrupted": true} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q := connect(t, s, "test")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var f *File
			n := 2 * chunkRows
			if interrupted {
				n = 50 // such a run has a few seconds to withdraw them
			}
			f = openText(t, numbered(1, n, "1"), func(o *Options) {
				o.Direct = false
				o.Progress = func(rows int) {
					if rows < n { // the progress is saved after this
						return
					}
					imp, err := imports.ReadImport(ctx, q, f.Batch)
					require.NoError(t, err)
					imp.CancelledAt = time.Now().UTC() // a cancellation that saw none of this
					require.NoError(t, imports.SaveImport(ctx, q, imp))
					if interrupted {
						interrupt()
					}
				}
			})
			sum, err := f.Check(ctx)
			require.NoError(t, err)
			_, err = f.Publish(ctx, q, sum)
			require.ErrorIs(t, err, ErrCancelled)
			imp, err := imports.ReadImport(t.Context(), q, f.Batch)
			require.NoError(t, err)
			require.False(t, imp.CancelledAt.IsZero())
			require.Equal(t, n, imp.Done, "what became of the last rows is written, too")
			require.Equal(t, map[string]int{string(Stored): n}, imp.Counts)
			besideWorker(t, s, func() { // whoever owns them by then withdraws them
				require.Eventually(t, func() bool {
					a, err := audit.Audit(t.Context(), q)
					if err != nil || a.Outcomes["cancelled"] != uint64(n) {
						return false
					}
					left, err := q.Waiting.Total(t.Context())
					return err == nil && left == 0 // a result is stored before its order is removed
				}, time.Minute, 50*time.Millisecond)
			})
			counts, err := q.Census.Count(t.Context())
			require.NoError(t, err)
			require.Zero(t, counts.LastIntent, "they were not moved")
		})
	}
}

// TestTimesOfRowsThatMissTheDeadline: the order would wait for its time, and expire.
func TestTimesOfRowsThatMissTheDeadline(t *testing.T) {
	deadline := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	at, before := deadline.Format(time.RFC3339), deadline.Add(-time.Second).Format(time.RFC3339)
	content := joined("order_no,timeout,_not_before", "A-1,30,", "A-2,30,"+before, "A-3,30,"+at)
	require.Equal(t, fmt.Sprintf("orders.csv:4:3: column _not_before: %q is not before the deadline %s, so the order would expire; correct it, or give a later deadline", at, at),
		refusals(t, openText(t, content, func(o *Options) { o.Deadline = deadline })))
}

// TestTimesOfRowsThatAreOver are refused like the import's own time, and all passes agree
// about the moment.
func TestTimesOfRowsThatAreOver(t *testing.T) {
	content := joined("order_no,timeout,_not_before", "A-1,30,", "A-2,30,2025-11-23T08:00Z", "A-3,30,2025-11-23T09:00Z")
	past := func(text string) func(*Options) {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return func(o *Options) { o.Past = at }
	}
	require.Equal(t, `orders.csv:3:3: column _not_before: "2025-11-23T08:00Z" is over, so the order would be sent at once; correct it, or leave the cell empty (or say --allow-past)`,
		refusals(t, openText(t, content, past("2025-11-23T08:30:00Z"))))
	_, got := bodies(t, openText(t, content, past("2025-11-23T08:00:59Z")))
	require.Len(t, got, 3, "a minute is allowed")
	_, got = bodies(t, openText(t, content))
	require.Len(t, got, 3, "somebody allowed it")
	_, got = bodies(t, openText(t, content, past("2025-11-23T08:30:00Z"), skipInvalid))
	require.Len(t, got, 2)
}
