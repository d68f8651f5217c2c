package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/order"
)

// TestImportsWait runs the commands around the waiting room, with bad input, beside a
// worker that feeds.
func TestImportsWait(t *testing.T) {
	settings, _ := api(t)
	settings["ORDERPOST_RATE_LIMIT"] = "20" // so that most orders wait
	settings["USER"] = "anna"
	w := startWorker(t, settings)
	t.Chdir(t.TempDir())
	rows := "order_no,timeout,_not_before\n"
	for i := range 300 {
		rows += fmt.Sprintf("M-%d,30,\n", i)
	}
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("march.csv", rows)
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	write("times.csv", "order_no,timeout,_not_before\nT-0,30,"+tomorrow+"\nT-1,30,2020-01-01T00:00:00Z\nT-2,30,\n")
	write("zone.csv", "order_no,timeout,_not_before\nZ-0,30,2026-10-25T02:30:00\n")
	write("far.csv", "order_no,timeout,_not_before\nZ-0,30,2126-10-25T02:30:00Z\n")
	write("lines.ndjson", `{"order_no":"N-0","timeout":30,"_not_before":"`+tomorrow+`"}`+"\n")
	run := func(code int, args ...string) string {
		t.Helper()
		got, out, errOut := runProgram(t, orderpost.Run, settings, args...)
		require.Equal(t, code, got, "%v: %s%s", args, out, errOut)
		return out + errOut
	}
	require.Contains(t, run(cli.ExitPartial, "enqueue", "zone.csv"), "has no zone; add Z or an offset")
	require.Contains(t, run(cli.ExitPartial, "enqueue", "far.csv"), "is more than a year ahead")
	require.Contains(t, run(cli.ExitPartial, "enqueue", "lines.ndjson"), "NDJSON has no _not_before")
	require.Contains(t, run(cli.ExitUsage, "enqueue", "march.csv", "--not-before", "2026-10-25T02:30"), "has no zone")
	require.Contains(t, run(cli.ExitUsage, "enqueue", "march.csv", "--lane", "at"), "cannot be a lane")
	require.Contains(t, run(cli.ExitUsage, "enqueue", "march.csv", "--lane", "night"), `unknown lane "night", there are: bulk`)
	require.Contains(t, run(cli.ExitUsage, "enqueue", "march.csv", "--direct", "--lane", "night"), "--direct: leaves out the waiting room")

	require.Contains(t, run(cli.ExitDone, "enqueue", "march.csv", "--batch", "march"), "300 enqueued")
	require.Contains(t, run(cli.ExitDone, "enqueue", "pause", "march"), "march: paused; ")
	status := run(cli.ExitPartial, "enqueue", "status", "march")
	require.Contains(t, status, "of these wait for their turn or their time")
	require.Contains(t, status, "paused by anna@")
	require.Contains(t, run(cli.ExitDone, "enqueue", "march.csv", "--batch", "march"), "not enqueued: an intent for the order_no is pending already", "the same file again")
	require.Contains(t, run(cli.ExitDone, "lane", "night", "3"), "Lane night: weight 3.")
	require.Contains(t, run(cli.ExitPartial, "enqueue", "times.csv", "--lane", "night"), `times.csv:3:3: column _not_before: "2020-01-01T00:00:00Z" is over`)
	require.Contains(t, run(cli.ExitDone, "enqueue", "times.csv", "--batch", "times", "--lane", "night", "--allow-past"), "3 enqueued")
	q := openStreams(t, settings)
	settled := func(no string) bool {
		entry, err := q.Ledger.Lookup(t.Context(), no)
		require.NoError(t, err)
		return entry.Record.Outcome() == order.OutcomeAccepted
	}
	require.Eventually(t, func() bool { return settled("T-1") && settled("T-2") }, 30*time.Second, 50*time.Millisecond, "beside a paused import")
	require.False(t, settled("T-0"))
	fleet := run(cli.ExitDone, "fleet")
	require.Regexp(t, `(?m)^bulk +1 +0 +- +0 +[1-9]\d+$`, fleet)
	require.Regexp(t, `(?m)^night +3 +0 +- +1 +0$`, fleet)
	require.Contains(t, fleet, "Paused: import march, by anna@")
	require.Contains(t, run(cli.ExitDone, "audit"), "more wait in the waiting room for their turn or their time")
	waited, err := q.Waiting.Of(t.Context(), "march")
	require.NoError(t, err)
	require.Contains(t, run(cli.ExitDone, "enqueue", "resume", "march"), "march: goes on; ")
	require.Eventually(t, func() bool {
		n, err := q.Waiting.Of(t.Context(), "march")
		require.NoError(t, err)
		return n < waited
	}, 30*time.Second, 50*time.Millisecond)

	_, out, _ := runProgram(t, orderpost.Run, settings, "enqueue", "cancel", "march") // some may have been posted before
	require.Regexp(t, `(?m)^ +\d+ cancelled$`, out)
	require.Contains(t, run(cli.ExitDone, "enqueue", "cancel", "T-0"), "1 cancelled")
	n, err := q.Waiting.Total(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.Eventually(t, func() bool {
		c, err := q.Census.Count(t.Context())
		require.NoError(t, err)
		return c.Pending == 0
	}, 30*time.Second, 50*time.Millisecond)
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	require.Equal(t, cli.ExitDone, w.end())
	require.EqualValues(t, 303, a.Outcomes["accepted"]+a.Outcomes["cancelled"])
}
