package powercut

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// recorded reads a trace that `go run ./proof/cmd/chaos powercut --seed 1 --orders 20 --keep DIR`
// left, and which was packed with tar and zstd.
func recorded(t *testing.T, name string) (*recorder, *trace) {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer func() { _ = packed.Close() }()
	plain, err := zstd.NewReader(packed)
	require.NoError(t, err)
	defer plain.Close()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "resubmit"), 0o700))
	for in := tar.NewReader(plain); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		b, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "resubmit", filepath.Base(h.Name)), b, 0o600))
	}
	rec, tr, err := (&options{seed: 1, traces: dir}).trace(t.Context(), dir, "resubmit", io.Discard)
	require.NoError(t, err)
	t.Cleanup(rec.api.close)
	require.Greater(t, tr.confirmations(), 50)
	require.Greater(t, len(tr.posts), 20)
	require.Len(t, tr.sessions, 3)
	if rec.without == nil {
		require.NoError(t, tr.checkStarts())
	}
	return rec, tr
}

// losses starts the broker on states that the seeds draw.
func losses(t *testing.T, rec *recorder, tr *trace, states uint64) (lost int) {
	t.Helper()
	for _, m := range models() {
		for i := range states {
			draw := rand.New(rand.NewPCG(7, i))
			s := tr.drawState(m, tr.drawCut(draw), draw)
			err := tr.judge(t.Context(), s, t.TempDir(), rec.without)
			if l := new(loss); errors.As(err, &l) {
				lost++
				t.Logf("%s, state %d: %v", m, i, l)
				continue
			}
			require.NoError(t, err)
		}
	}
	return lost
}

func TestARecordedTraceLosesNothing(t *testing.T) {
	rec, tr := recorded(t, "shipped.tar.zst")
	require.Zero(t, losses(t, rec, tr, 30))
}

// The method finds what it is there for: a broker that does not sync loses confirmed
// messages.
func TestABrokerThatDoesNotSyncIsCaught(t *testing.T) {
	rec, tr := recorded(t, "nosync.tar.zst")
	require.Greater(t, losses(t, rec, tr, 15), 5)
}

// So it is on the smallest scale: the sync before one confirmation is taken out of the
// trace of the broker that syncs.
func TestOneMissingSyncIsFound(t *testing.T) {
	rec, tr := recorded(t, "shipped.tar.zst")
	var last event
	for _, e := range tr.events {
		if !e.removed && !e.passing && e.stream == "ORDERS" {
			last = e
		}
	}
	at := -1
	for i, o := range tr.ops {
		if o.kind == syncOp && o.exit < last.line && filepath.Ext(tr.inodes[o.inode].path) == ".blk" {
			at = i
		}
	}
	lose := func() error {
		return tr.judge(t.Context(), tr.bare(strict, last.line), t.TempDir(), rec.without)
	}
	require.NoError(t, lose())
	tr.ops[at].kind, tr.ops[at].inode = truncateOp, -1 // of no file
	var l *loss
	require.ErrorAs(t, lose(), &l)
	require.Contains(t, l.Error(), "ORDERS")
}

// A worker settles what a power cut left, and the books balance against the API's ledger.
// Where the API has created an order of which nothing is recorded, and says so, it does
// not.
func TestAWorkerResumes(t *testing.T) {
	rec, tr := recorded(t, "shipped.tar.zst")
	cut := tr.posts[len(tr.posts)/2].answered
	s := tr.bare(strict, cut)
	arrived := func() bool { return true }
	require.NoError(t, tr.resume(context.Background(), s, t.TempDir(), rec, arrived))

	for no := range rec.api.created { // the API knows nothing of what is recorded as accepted
		rec.api.created[no] = nil
	}
	var l *loss
	require.ErrorAs(t, tr.resume(context.Background(), s, t.TempDir(), rec, arrived), &l)
	require.Equal(t, "the books do not balance", l.reason)
}

// Every way to tear the writes of the streams that were empty when the broker was last
// stopped. nats-server by itself takes them for empty if the end of their block is zeros.
func TestTornEndsOfBlocks(t *testing.T) {
	rec, tr := recorded(t, "shipped.tar.zst")
	tried, lost := 0, 0
	for i, o := range tr.ops {
		path := tr.inodes[o.inode].path
		if o.kind != writeOp || filepath.Ext(path) != ".blk" || !strings.Contains(path, "ORDERS_JOURNAL") || o.off == 0 {
			continue
		}
		at := slices.Index(tr.bare(strict, o.exit).open, i)
		last := int(o.off) + len(o.data) - 1
		for sectors := range uint64(1) << (last/sector - int(o.off)/sector + 1) {
			for _, extended := range []bool{false, true} {
				s := tr.bare(strict, o.exit)
				s.fates[at] = fate{torn: true, sectors: sectors, extended: extended}
				require.NoError(t, tr.judge(t.Context(), s, t.TempDir(), rec.without), "%s, sectors %b, extended %t", o.text, sectors, extended)
				var l *loss
				if errors.As(tr.judge(t.Context(), s, t.TempDir(), []string{"meta"}), &l) {
					lost++
				}
				tried++
			}
		}
	}
	require.Greater(t, tried, 10)
	require.Positive(t, lost, "nats-server keeps them by itself: cutTails would be needless")
}
