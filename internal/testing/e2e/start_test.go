package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet"
)

// TestAStartIsThreeLines: where it posts, where it stores, what it may send. A
// worker that starts alone has nothing to warn of.
func TestAStartIsThreeLines(t *testing.T) {
	t.Parallel()
	settings, url := api(t)
	settings["ORDERPOST_LOG_LEVEL"], settings["ORDERPOST_OPS_ADDR"] = "info", "127.0.0.1:0"
	for _, limit := range []string{"0", "50"} {
		settings["ORDERPOST_RATE_LIMIT"] = limit
		w := startWorker(t, settings)
		q := openStreams(t, settings)
		require.Eventually(t, func() bool {
			workers, err := fleet.New(q).Workers(t.Context())
			return err == nil && len(workers) == 1 && workers[0].Open && workers[0].Joined && strings.Contains(w.errOut.String(), `"working"`)
		}, patience, pause)
		var said []map[string]any
		for line := range strings.Lines(w.errOut.String()) {
			var entry map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
			require.Equal(t, "info", entry["level"], line)
			said = append(said, entry)
		}
		require.Len(t, said, 3, w.errOut.String())
		require.Equal(t, url, said[0]["api"])
		require.Equal(t, settings["ORDERPOST_DATA_DIR"], said[1]["data_dir"])
		require.Equal(t, limit == "0", said[1]["made"] != nil, "the streams are new at the first start")
		require.Equal(t, "working", said[2]["message"])
		require.Contains(t, said[2]["ops"], "http://127.0.0.1:")
		require.Contains(t, []any{0.0, 50.0}, said[2]["rate_limit"])
		q.Close()
		require.Equal(t, cli.ExitDone, w.end(), w.errOut.String())
	}
}
