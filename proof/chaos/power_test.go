package chaos

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// TestPowerCutKeepsWhatWasConfirmed copies the store of a broker that is being
// written to, at moments of chance, tears each copy as a power cut does, and
// starts a broker on it: every intent and every outcome that was confirmed
// before the copy began is there.
func TestPowerCutKeepsWhatWasConfirmed(t *testing.T) {
	dir := t.TempDir()
	s, q := broker(t, dir)
	t.Cleanup(func() { q.Close(); s.Stop() })
	in := newIntents()
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { write(ctx, q, in) })
	t.Cleanup(func() { stop(); writing.Wait() })
	draw := rand.New(rand.NewPCG(11, 4))
	var confirmed map[string]confirmation
	for cut := range 3 {
		require.Eventually(t, func() bool { return in.count() > 15*(cut+1)+draw.IntN(10) }, 20*time.Second, time.Millisecond)
		confirmed = in.all()
		copied := filepath.Join(t.TempDir(), "copy")
		copyStore(t, dir, copied)
		require.NoError(t, tear(filepath.Join(copied, "jetstream", "jetstream"), draw))
		require.Empty(t, gone(t, copied, confirmed))
	}
	// The same check on a disk that lied: what was confirmed is cut off.
	copied := filepath.Join(t.TempDir(), "copy")
	copyStore(t, dir, copied)
	block, err := lastBlock(filepath.Join(copied, "jetstream", "jetstream", "$G", "streams", "ORDERS", "msgs"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(block, 400))
	require.NotEmpty(t, gone(t, copied, confirmed))
}

func broker(t *testing.T, dir string) (*embedded.Server, *queue.Queue) {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name = s.URL, s.Token, "test"
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	return s, q
}

// write stores intents, and withdraws every fifth, so that there are results
// and deletions, too.
func write(ctx context.Context, q *queue.Queue, in *intents) {
	for i := 0; ctx.Err() == nil; i++ {
		no := fmt.Sprintf("P-%05d", i)
		if _, err := q.Producer.Publish(ctx, settle.Intent{OrderNo: no, ID: no, Body: []byte(`{"order_no":"` + no + `","timeout":60}`)}); err != nil {
			continue
		}
		if i%5 != 0 {
			in.confirm(order.OutcomeNone, no)
			continue
		}
		if withdraw(ctx, q, no) == nil {
			in.confirm(order.OutcomeCancelled, no)
		}
	}
}

// withdraw cancels an order, and is the worker that settles it.
func withdraw(ctx context.Context, q *queue.Queue, no string) error {
	if _, err := books.CancelOrder(ctx, q, no, "test"); err != nil {
		return err
	}
	view, err := fleet.New(q).Read(ctx)
	if err != nil {
		return err
	}
	q.Ledger.SetCancellations(view.Cancelled)
	for withdrawn := false; !withdrawn && err == nil; err = cmp.Or(err, ctx.Err()) {
		pullErr := q.Pull(ctx, 1, time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				if d.Work == settle.WorkCancelled {
					r := order.Report{End: order.EndCancelled, Reason: "withdrawn by a person", History: d.History}
					_, err = q.Worker.Settle(ctx, d, &r, order.Decide(&r, order.Facts{}))
					withdrawn = d.OrderNo() == no
				}
				d.Release()
			}
		})
		err = cmp.Or(err, pullErr)
	}
	return err
}

// copyStore copies what the disk holds: indexes before the blocks that they
// are about, and a later block before an earlier one, so that the copy is no
// newer anywhere than what was fsynced before it.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".tmp") && filepath.Base(path) != "lock" {
			files = append(files, path)
		}
		return nil // what vanishes meanwhile is not there
	}))
	slices.SortFunc(files, func(a, b string) int {
		blockA, blockB := strings.HasSuffix(a, ".blk"), strings.HasSuffix(b, ".blk")
		if blockA != blockB {
			return map[bool]int{true: 1, false: -1}[blockA]
		}
		return strings.Compare(b, a)
	})
	// Intents first: an outcome is written before its intent is removed.
	slices.SortStableFunc(files, func(a, b string) int { return rank(a) - rank(b) })
	for _, path := range files {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		rel, err := filepath.Rel(from, path)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(to, rel), data, 0o600))
	}
}

func rank(path string) int {
	if strings.Contains(path, string(filepath.Separator)+"ORDERS"+string(filepath.Separator)) {
		return 0
	}
	return 1
}

// gone starts a broker on a store and lists what was confirmed and is not
// there.
func gone(t *testing.T, dir string, confirmed map[string]confirmation) (list []string) {
	t.Helper()
	s, q := broker(t, dir)
	defer s.Stop()
	defer q.Close()
	nos := slices.Sorted(maps.Keys(confirmed))
	statuses, err := books.OrderStatuses(t.Context(), q, nos)
	require.NoError(t, err)
	for i, st := range statuses {
		require.NoError(t, st.Unreadable)
		settled := st.Record != nil && st.Record.Outcome() == confirmed[nos[i]].Must
		if !settled && (confirmed[nos[i]].Must != order.OutcomeNone || st.Pending == nil) {
			list = append(list, nos[i])
		}
	}
	a, err := books.Audit(t.Context(), q)
	require.NoError(t, err)
	require.Zero(t, a.OffenderCount, a.Offenders)
	return list
}
