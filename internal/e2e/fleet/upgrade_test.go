//go:build upgrade

// Run with: make upgrade. It builds a worker of another revision, which takes
// too long for every run of the tests.

package fleet

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/e2e/child"
	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
)

// oldRevision names the other revision; empty = the oldest whose streams and
// records this one understands.
const oldRevision = "OLD_REVISION"

// TestRollingUpgrade replaces three workers of an older revision one by one, and
// then goes back, while orders flow and the API fails now and then. Each order
// exists once, the books balance, and both versions did their part.
func TestRollingUpgrade(t *testing.T) {
	const workers = 3
	r := newRig(t, map[string]string{"ORDERPOST_CONCURRENCY": "6", "ORDERPOST_LOG_LEVEL": "info", "ORDERPOST_RETRY_DELAY_BASE": "500ms"})
	r.asOlder()
	older := buildOld(t)
	require.NoError(t, r.api.Update(func(s *sandbox.Settings) {
		s.Latency, s.Duplicates = 60*time.Millisecond, sandbox.RefuseDuplicates
		s.Faults = sandbox.Faults{Unavailable: 0.02, UnavailableAfter: 0.01, DropBefore: 0.01, DropAfter: 0.02, MaxPerOrder: 2}
	}))
	var now []*child.Child
	for i := range workers {
		now = append(now, child.Start(t, older, fmt.Sprintf("old-%d", i), r.settings))
	}
	r.publish("first", batch)
	r.flow(100)
	for i := range workers {
		now[i] = r.replace(now[i], r.start(fmt.Sprintf("new-%d", i)))
	}
	for i := range workers {
		now[i] = r.replace(now[i], child.Start(t, older, fmt.Sprintf("back-%d", i), r.settings))
	}
	now[0] = r.replace(now[0], r.start("last"))

	r.eventually(func() bool {
		entry, err := r.q.Lookup(t.Context(), contested)
		return err == nil && entry.Record.Outcome() == order.OutcomeAccepted
	}, "%s is accepted", contested)
	r.contest("the last")
	by := map[string]int{}
	for no, rec := range r.settled((1 + 2*workers + 1) * batch) {
		if no == contested { // what an old worker writes names the newest submission, as it always did
			require.Greater(t, rec.Settled, 1, "nothing contested it")
			l, err := r.q.Letter(t.Context(), no)
			require.NoError(t, err)
			require.True(t, l.Conflict)
		}
		by[strings.Split(rec.Worker, "-")[0]]++
	}
	t.Logf("orders settled by the older version %d, by this one %d, after the way back %d and %d", by["old"], by["new"], by["back"], by["last"])
	for _, who := range []string{"old", "new", "back", "last"} {
		require.Positive(t, by[who], who)
	}
	for _, c := range now {
		t.Logf("%s ended in %s", c.Name, c.End(patience).Round(time.Millisecond))
	}
}

// TestRollingUpgradeWhileAnImportWaits lets workers of both versions come and go while
// an import waits. A newer worker feeds beside an older one. Where only older ones are
// left, what waits stays where it is. Each order exists once, the books balance, and
// nothing is sent before its time.
func TestRollingUpgradeWhileAnImportWaits(t *testing.T) {
	const imported = 2000
	r := newRig(t, map[string]string{"ORDERPOST_CONCURRENCY": "6", "ORDERPOST_LOG_LEVEL": "info", "ORDERPOST_RETRY_DELAY_BASE": "500ms"})
	r.asOlder()
	older := buildOld(t)
	require.NoError(t, r.api.Update(func(s *sandbox.Settings) {
		s.Latency, s.Duplicates = 60*time.Millisecond, sandbox.RefuseDuplicates
		s.Faults = sandbox.Faults{Unavailable: 0.02, DropBefore: 0.01, DropAfter: 0.02, MaxPerOrder: 2}
	}))
	old := child.Start(t, older, "old-0", r.settings)
	r.publish("first", batch)
	r.flow(100)
	newer := r.start("new-0")
	r.eventually(func() bool { return r.q.OpenWaiting(t.Context()) == nil }, "the newer worker opens the waiting room:\n%s", newer.Said())
	at := time.Now().Add(15 * time.Second)
	r.wait("march", imported, at)
	waits := func() int {
		n, err := r.q.WaitingTotal(t.Context())
		require.NoError(t, err)
		return int(n)
	}
	r.eventually(func() bool { return waits() < imported-100 }, "the import is fed beside an older worker")
	newer.End(patience)
	r.publish("direct", batch)
	left := waits() // by now the broker has heard what the newer worker acknowledged
	require.Positive(t, left)
	r.flow(batch / 2)
	require.Equal(t, left, waits(), "older workers feed nothing, and take nothing away")
	last := r.start("last")
	r.flow(50)
	old.End(patience)
	r.eventually(func() bool { return waits() == 0 }, "the import is fed to its end:\n%s", last.Said())
	records := r.settled(2*batch + imported)
	require.False(t, records["march-00000"].FirstAttemptAt.Before(at), "sent before its time")
}

// wait puts n orders of an import into the waiting room. The first one waits for its
// time, too.
func (r *rig) wait(batch string, n int, at time.Time) {
	r.t.Helper()
	in := make([]settle.Intent, n)
	for i := range in {
		no := fmt.Sprintf("%s-%05d", batch, i)
		in[i] = settle.Intent{OrderNo: no, ID: fmt.Sprintf("%s:%d", batch, i+1), Batch: batch, Lane: order.BulkLane, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"1"}`, no)}
	}
	in[0].NotBefore = at
	for _, res := range r.q.PublishMany(r.t.Context(), in) {
		require.NoError(r.t, res.Err)
	}
}

// asOlder takes the limit of a message's size from the streams: those of an
// older version have none, and it refuses to start on one that has.
func (r *rig) asOlder() {
	r.t.Helper()
	nc, err := nats.Connect(r.broker.URL, nats.Token(r.broker.Token), nats.Timeout(time.Minute))
	require.NoError(r.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(r.t, err)
	stream, err := js.Stream(r.t.Context(), "ORDERS")
	require.NoError(r.t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgSize = -1
	_, err = js.UpdateStream(r.t.Context(), cfg)
	require.NoError(r.t, err)
}

// batch is how many orders come with each step.
const batch = 400

// contested is an order that is asked for with other bodies, too: whichever
// version refuses them, they are not sent, and counted.
const contested = "first-00000"

func (r *rig) contest(by string) {
	r.t.Helper()
	_, err := r.q.Publish(r.t.Context(), settle.Intent{OrderNo: contested, ID: "contest:" + by, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":%q}`, contested, by)})
	require.NoError(r.t, err)
}

// flow waits until n more orders exist.
func (r *rig) flow(n int) {
	r.t.Helper()
	from := r.created()
	r.eventually(func() bool { return r.created() >= from+n }, "orders flow")
}

// replace lets the next worker appear, then stops the last one in the middle of
// a batch, as a rolling update does.
func (r *rig) replace(last, next *child.Child) *child.Child {
	r.t.Helper()
	r.eventually(func() bool {
		for _, p := range r.members() {
			if p.Worker == next.Name || strings.HasSuffix(p.Worker, next.Name) {
				return true
			}
		}
		return false
	}, "%s appears:\n%s", next.Name, next.Said())
	r.publish(next.Name, batch)
	r.contest(next.Name)
	r.flow(batch / 4)
	r.t.Logf("%s ended in %s, %s has taken its place", last.Name, last.End(patience).Round(time.Millisecond), next.Name)
	r.flow(50)
	return next
}

// buildOld builds the worker of the other revision from the repository's
// history.
func buildOld(t *testing.T) string {
	t.Helper()
	top := strings.TrimSpace(git(t, ".", "rev-parse", "--show-toplevel"))
	require.Equal(t, "false", strings.TrimSpace(git(t, top, "rev-parse", "--is-shallow-repository")),
		"this clone is shallow and has no older revisions: run git fetch --unshallow first")
	revision := os.Getenv(oldRevision)
	if revision == "" {
		revision = oldestCompatible(t, top)
	}
	t.Logf("the older version is %s", strings.TrimSpace(git(t, top, "log", "-1", "--format=%h %ad %s", "--date=short", revision)))
	dir := t.TempDir()
	extract(t, top, revision, dir)
	binary := filepath.Join(t.TempDir(), "worker-old")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/worker")
	build.Dir = dir
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// oldestCompatible is the first revision that made streams of the topology
// version that this one makes: a worker refuses to start on a newer one.
func oldestCompatible(t *testing.T, top string) string {
	t.Helper()
	const file = "internal/queue/topology.go"
	source, err := os.ReadFile(filepath.Join(top, file))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^const topologyVersion = \d+$`).Find(source)
	require.NotEmpty(t, version, "%s does not say its version any more", file)
	list := strings.Fields(git(t, top, "log", "--reverse", "--format=%H", "-S"+string(version), "--", file))
	require.NotEmpty(t, list, "no revision in the history has %q; name one by %s", version, oldRevision)
	return list[0]
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	require.NoError(t, err, "this test needs git and a clone with its history")
	return string(out)
}

// extract writes the files of a revision into dir.
func extract(t *testing.T, top, revision, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "archive", "--format=tar", revision)
	cmd.Dir = top
	stream, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	files := 0
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		files++
	}
	require.NoError(t, cmd.Wait())
	require.Greater(t, files, 50, "revision %s has hardly any sources", revision)
}
