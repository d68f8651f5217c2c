package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/bitrot"
)

// monitored returns a rig of three servers that say how much they have of the results.
func monitored(t *testing.T, messages ...int) *rig {
	t.Helper()
	r := &rig{}
	for _, n := range messages {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"account_details":[{"name":"WORK","stream_detail":[{"name":%q,"state":{"messages":%d,"last_seq":90}}]}]}`, resultsStream, n)
		}))
		t.Cleanup(s.Close)
		r.monitors, r.nodes = append(r.monitors, strings.TrimPrefix(s.URL, "http://")), append(r.nodes, &process{name: "node"})
	}
	return r
}

// A server that does not heal is told from one that does.
func TestWhatADamagedServerLacks(t *testing.T) {
	t.Parallel()
	r := monitored(t, 80, 80, 68)
	lacks, err := r.lacks(t.Context(), 0, resultsStream, time.Minute)
	require.NoError(t, err)
	require.Zero(t, lacks)
	lacks, err = r.lacks(t.Context(), 2, resultsStream, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 12, lacks)
	require.ErrorContains(t, r.whole(t.Context(), 2), "lacks 12 messages of ORDERS_RESULTS")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.lacks(ctx, 1, "ORDERS", time.Minute)
	require.ErrorIs(t, err, context.Canceled)
}

// Damage changes one file, in its first half, and removes the index.
func TestDamageIsDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jetstream", "streams", "ORDERS", "msgs")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	before := strings.Repeat("x", 1000)
	for _, name := range []string{"2.blk", "10.blk", "index.db"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(before), 0o600))
	}
	where, err := bitrot.DamageAny(filepath.Dir(filepath.Dir(dir)), "ORDERS", bitrot.Cut, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	total := 0
	for _, name := range []string{"2.blk", "10.blk"} {
		block, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		total += len(block)
		require.Equal(t, len(block) < len(before), strings.HasPrefix(where, name), where)
	}
	require.LessOrEqual(t, total, 1500)
	require.NoFileExists(t, filepath.Join(dir, "index.db"))
	_, err = bitrot.DamageAny(dir, "ORDERS_DEAD", bitrot.Flip, rand.New(rand.NewPCG(1, 2)))
	require.ErrorContains(t, err, "ORDERS_DEAD")
}
