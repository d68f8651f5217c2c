package enqueue

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
)

func orders(t *testing.T, first, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "march.csv")
	content := []byte("order_no,timeout\n")
	for i := range n {
		content = fmt.Appendf(content, "T-%d,30\n", first+i)
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// Who imports into an import that is held is told, and what to type.
func TestAnImportThatIsHeldSaysSo(t *testing.T) {
	q, settings := startStreams(t)
	file := orders(t, 0, 3)
	require.NotContains(t, run(t, settings, "", file, "--batch", "march").transcript(), "paused by")
	require.NoError(t, imports.PauseImport(t.Context(), q, "march", "otto"))
	got := run(t, settings, "", file, "--batch", "march")
	require.Equal(t, cli.ExitDone, got.code)
	require.Contains(t, got.errOut, "The orders of this import that wait stay where they are: paused by otto; orderpost enqueue continue march lets them go on.\n")
	require.Contains(t, run(t, settings, "", file, "--batch", "march", "--json").out, `"paused_by":"otto"`)
	require.Contains(t, run(t, settings, "", "status", "march").out, "         paused by otto; orderpost enqueue continue march lets them go on\n")
}

// An import of orders with a time says until when they wait.
func TestAnImportSaysUntilWhenItsOrdersWait(t *testing.T) {
	_, settings := startStreams(t)
	at := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	got := run(t, settings, "", orders(t, 0, 3), "--not-before", at.Format(time.RFC3339))
	require.Contains(t, got.out, fmt.Sprintf("       3 of these wait for their time: %s\n", at.UTC().Format(time.RFC3339)))
	file := filepath.Join(t.TempDir(), "times.csv")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "order_no,timeout,_not_before\nA,30,\nB,30,%s\nC,30,%s\n",
		at.Add(time.Hour).Format(time.RFC3339), at.Format(time.RFC3339)), 0o600))
	got = run(t, settings, "", file)
	require.Contains(t, got.out, fmt.Sprintf("       2 of these wait for their time: %s to %s\n", at.UTC().Format(time.RFC3339), at.Add(time.Hour).UTC().Format(time.RFC3339)))
}

// The list of the imports shows which ones are held, a producer's as well.
func TestTheListShowsWhatIsHeld(t *testing.T) {
	q, settings := startStreams(t)
	for i, batch := range []string{"march", "april"} {
		require.Equal(t, cli.ExitDone, run(t, settings, "", orders(t, 10*i, 3), "--batch", batch).code)
	}
	for _, batch := range []string{"march", "basket 7"} {
		require.NoError(t, imports.PauseImport(t.Context(), q, batch, "otto"))
	}
	got := run(t, settings, "", "status")
	require.Regexp(t, `(?m)^march .*  paused by otto$`, got.out)
	require.Regexp(t, `(?m)^basket 7  a producer's  paused by otto$`, got.out)
	require.Regexp(t, `(?m)^april .*march.csv$`, got.out)
	got = run(t, settings, "", "status", "--json")
	require.Equal(t, 2, strings.Count(got.out, "\n"))
	require.Equal(t, 1, strings.Count(got.out, `"paused_by":"otto"`))
}

// TestTimesThatAreOverOrOther: a mistyped year sends nothing, and an import that is
// pending is never left at another time without a word.
func TestTimesThatAreOverOrOther(t *testing.T) {
	q, settings := startStreams(t)
	file := orders(t, 0, 2)
	past := time.Now().Add(-366 * 24 * time.Hour).UTC().Format(time.RFC3339)
	got := run(t, settings, "", file, "--not-before", past)
	require.Equal(t, cli.ExitUsage, got.code, got.errOut)
	require.Regexp(t, `^enqueue: --not-before: .* was 8784h0m\ds ago; leave it out if the orders are to be sent at once, or say --allow-past`, got.errOut)

	first, second := time.Now().Add(time.Hour).UTC().Format(time.RFC3339), time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)
	importIt := func(args ...string) enqueued {
		return run(t, settings, "", append([]string{file, "--batch", "march"}, args...)...)
	}
	require.Equal(t, cli.ExitDone, importIt("--not-before", first).code)
	require.Equal(t, cli.ExitDone, importIt("--not-before", first).code, "the same again")
	for _, other := range [][]string{{"--not-before", second}, {}, {"--not-before", past, "--allow-past"}} {
		got = importIt(other...)
		require.Equal(t, cli.ExitUsage, got.code, got.out+got.errOut)
		require.Contains(t, got.errOut, "another time for an import that is pending: 2 orders are pending with the time "+first+", and this run says ")
		require.Contains(t, got.errOut, "orderpost enqueue cancel march")
	}
	besideWorker(t, q, func() {
		require.Equal(t, cli.ExitDone, run(t, settings, "", "cancel", "march").code)
	})
	got = importIt("--retry-failed", "--not-before", second)
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, "2 of these wait for their time: "+second)

	got = run(t, settings, "", orders(t, 10, 2), "--batch", "april", "--not-before", past, "--allow-past")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, run(t, settings, "", "status", "april").out, "of its orders: 0 accepted, 0 failed, 2 open\n")
	times := filepath.Join(t.TempDir(), "times.csv")
	require.NoError(t, os.WriteFile(times, []byte("order_no,timeout,_not_before\nO-1,30,2020-01-01T00:00:00Z\n"), 0o600))
	got = run(t, settings, "", times)
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, `times.csv:2:3: column _not_before: "2020-01-01T00:00:00Z" is over, so the order would be sent at once; correct it, or leave the cell empty (or say --allow-past)`)
	got = run(t, settings, "", times, "--allow-past")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, "1 enqueued")
	rows := filepath.Join(t.TempDir(), "rows.csv")
	got = run(t, settings, "", "results", strings.Fields(strings.SplitAfter(got.out, "batch ")[1])[0], "-o", rows)
	text, err := os.ReadFile(rows)
	require.NoError(t, err, got.errOut)
	require.Contains(t, string(text), "O-1,30,2020-01-01T00:00:00Z,pending,")
}

// TestPlainLinesOnlyWhenTheSentenceChanges: a line that says the same again is noise.
func TestPlainLinesOnlyWhenTheSentenceChanges(t *testing.T) {
	var out strings.Builder
	m := newMeter(newStatusLine(&out), false)
	for range 3 {
		m.show(importer.Progress{Total: 2, Workers: 2, NothingSent: "nothing is sent: held by anna"})
	}
	require.Equal(t, "0 of 2 orders settled; nothing is sent: held by anna\n", out.String())
	m.show(importer.Progress{Total: 2, Workers: 2, NothingSent: "nothing is sent: a rule holds"})
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
}

// Whoever waits is told that nothing is sent, since when and why: while enqueue waits, by
// status, and by order.
func TestWhoeverWaitsIsToldThatNothingIsSent(t *testing.T) {
	q, settings := startStreams(t)
	c := fleet.New(q)
	require.NoError(t, c.Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "w1", Since: time.Now().UTC(), Open: true, Joined: true}))
	file := orders(t, 0, 3)
	require.NotContains(t, run(t, settings, "", file, "--batch", "march").transcript(), "othing is sent")
	require.NotContains(t, run(t, settings, "", "status", "march").out, "othing is sent")

	since := time.Now().UTC()
	require.NoError(t, c.SetHold(t.Context(), fleet.Hold{By: "otto", Reason: "month end closing", Since: since}))
	why := "thing is sent since " + since.Format("15:04") + " UTC: held by otto: month end closing"
	require.Contains(t, run(t, settings, "", orders(t, 10, 1)).errOut, "No"+why+". The orders wait.\n")
	require.Contains(t, run(t, settings, "", "status", "march").out, "         no"+why+"\n")
	require.Contains(t, run(t, settings, "", "status", "march", "--json").out, `"nothing_sent":"no`+why+`"`)
	got := run(t, settings, "", "order", "T-1")
	require.Equal(t, cli.ExitDone, got.code)
	require.Contains(t, got.out, "fleet          no"+why[:30])
	require.Contains(t, run(t, settings, "", "order", "T-1", "--json").out, `"nothing_sent": "no`+why+`"`)
	require.Contains(t, run(t, settings, "", "order", "T-1").out, "it waits, and nothing is sent since")
}

// TestAnEmptyTimeIsNoTime: without it the orders would be sent at once, or for ever.
func TestAnEmptyTimeIsNoTime(t *testing.T) {
	for _, flag := range []string{"not-before", "deadline", "lane", "results"} {
		var out, errOut bytes.Buffer
		require.Equal(t, cli.ExitUsage, Run(t.Context(), []string{"orders.csv", "--" + flag + "="}, nil, nil, &out, &errOut))
		require.Contains(t, errOut.String(), "--"+flag+" is empty: give a value, or leave the flag out")
	}
}
