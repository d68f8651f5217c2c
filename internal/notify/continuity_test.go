package notify

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheBrokerLosesTheEnd: a broker comes back with an older copy of the results, and gives the
// sequences out again that the position has passed. What is stored under them is told, by a
// sender that runs and by one that starts later.
func TestTheBrokerLosesTheEnd(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %t", runs), func(t *testing.T) {
			t.Parallel()
			server := startBroker(t)
			q := openQueue(t, server)
			e, b := newHookServer(t), newLedger(t, q)
			restart := func(between func(results string)) {
				server.Stop()
				require.Eventually(t, func() bool { return !q.Conn.Connected() }, time.Minute, time.Millisecond, "otherwise Connected tells of the former connection")
				between(resultsFolder(t, server.Dir))
				server.Restart(t)
				require.Eventually(t, q.Conn.Connected, time.Minute, time.Millisecond)
			}

			b.put("A-1", "accepted")
			b.put("A-2", "accepted")
			older := t.TempDir()
			restart(func(results string) { require.NoError(t, os.CopyFS(older, os.DirFS(results))) })
			stop := run(t, newTestSender(t, q, e.URL))
			b.put("A-3", "accepted")
			b.put("A-4", "accepted")
			e.await(t, map[string]string{"A-1": "accepted", "A-4": "accepted"})
			require.Eventually(t, func() bool { return kept(t, q).Position.Seq == 4 }, time.Minute, time.Millisecond)
			if !runs {
				stop()
			}
			restart(func(results string) {
				require.NoError(t, os.RemoveAll(results))
				require.NoError(t, os.CopyFS(results, os.DirFS(older)))
			})
			want := make(map[string]string)
			for i := range 5 { // up to a higher sequence than was reached before
				no := fmt.Sprintf("B-%d", i)
				b.put(no, "rejected")
				want[no] = "rejected"
			}
			require.EqualValues(t, 3, b.seqs["B-0"], "the sequence was given out again")
			if !runs {
				run(t, newTestSender(t, q, e.URL))
			}
			e.await(t, want)
			require.Eventually(t, func() bool { return kept(t, q).Position.Seq == 7 }, time.Minute, time.Millisecond)
		})
	}
}

// resultsFolder finds where the broker keeps the results.
func resultsFolder(t *testing.T, dir string) (found string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "ORDERS_RESULTS" {
			found = path
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

// TestANewStreamOfResults: with another stream under the name, no old sequence counts.
func TestANewStreamOfResults(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	b := newLedger(t, q)
	b.put("A-1", "accepted")
	state, err := q.Results().State(t.Context())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		kept Position
		want uint64
	}{
		"the same":             {Position{Seq: 1, At: state.LastTime, Created: state.Created}, 1},
		"nothing was told yet": {Position{Created: state.Created}, 0},
		"another, older place": {Position{Seq: 500, At: state.LastTime.Add(-time.Hour), Created: state.Created.Add(-time.Hour)}, 0},
		"another, never told":  {Position{Created: state.Created.Add(-time.Hour)}, 0},
		"restored, all told":   {Position{Seq: 1, At: state.LastTime, Created: state.Created.Add(-time.Hour)}, 1},
	} {
		from, err := resume(t.Context(), q, c.kept)
		require.NoError(t, err)
		require.Equal(t, c.want, from.Seq, name)
		require.True(t, from.Created.Equal(state.Created), name)
	}
}
