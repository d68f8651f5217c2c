package enqueue

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/program"
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
	q, settings := waitingRoom(t)
	file := orders(t, 0, 3)
	require.NotContains(t, run(t, settings, "", file, "--batch", "march").transcript(), "paused by")
	require.NoError(t, books.PauseImport(t.Context(), q, "march", "otto"))
	got := run(t, settings, "", file, "--batch", "march")
	require.Equal(t, program.ExitDone, got.code)
	require.Contains(t, got.errOut, "The orders of this import that wait stay where they are: paused by otto; enqueue resume march lets them go on.\n")
	require.Contains(t, run(t, settings, "", file, "--batch", "march", "--json").out, `"paused_by":"otto"`)
	require.Contains(t, run(t, settings, "", "status", "march").out, "         paused by otto; enqueue resume march lets them go on\n")
}

// An import whose orders do not wait for their turn says why.
func TestAnImportThatGoesStraightToTheQueueSaysWhy(t *testing.T) {
	settings := brokerSettings(t)
	require.Contains(t, run(t, settings, "", orders(t, 0, 3)).errOut, "There is no waiting room yet: no worker of this version has worked with this broker. The orders went straight to the queue.\n")
	q, settings := waitingRoom(t)
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "w1", Since: time.Now().UTC(), Open: true, Joined: true}))
	file := orders(t, 0, 3)
	got := run(t, settings, "", file)
	require.Contains(t, got.errOut, "No running worker feeds the queue from the waiting room: it is of an older version, or could not open the waiting room, as its log says. The orders went straight to the queue.\n")
	require.NotContains(t, run(t, settings, "", file).errOut, "straight", "nothing was enqueued")
}

// An import of orders with a time says until when they wait.
func TestAnImportSaysUntilWhenItsOrdersWait(t *testing.T) {
	_, settings := waitingRoom(t)
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
	q, settings := waitingRoom(t)
	for i, batch := range []string{"march", "april"} {
		require.Equal(t, program.ExitDone, run(t, settings, "", orders(t, 10*i, 3), "--batch", batch).code)
	}
	for _, batch := range []string{"march", "basket 7"} {
		require.NoError(t, books.PauseImport(t.Context(), q, batch, "otto"))
	}
	got := run(t, settings, "", "status")
	require.Regexp(t, `(?m)^march .*  paused by otto$`, got.out)
	require.Regexp(t, `(?m)^basket 7  a producer's  paused by otto$`, got.out)
	require.Regexp(t, `(?m)^april .*march.csv$`, got.out)
	got = run(t, settings, "", "status", "--json")
	require.Equal(t, 2, strings.Count(got.out, "\n"))
	require.Equal(t, 1, strings.Count(got.out, `"paused_by":"otto"`))
}
