package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/notify"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/program/orderpost"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

// mark makes the test's own binary the program orderpost.
const mark = "ORDERPOST_TEST_NOTIFY"

func TestMain(m *testing.M) {
	if os.Getenv(mark) != "" {
		program.Main(orderpost.Run)
	}
	os.Exit(m.Run())
}

// sender is a process of `orderpost notify`.
type sender struct {
	t   *testing.T
	cmd *exec.Cmd
}

func startSender(t *testing.T, settings map[string]string) *sender {
	t.Helper()
	cmd := exec.Command(os.Args[0], "notify")
	cmd.Env = []string{mark + "=1", "HOME=" + t.TempDir()}
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	require.NoError(t, cmd.Start())
	s := &sender{t, cmd}
	t.Cleanup(s.kill)
	return s
}

// kill ends it as a power cut would.
func (s *sender) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// end asks it to stop, and fails if it does not within some seconds.
func (s *sender) end() {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	timer := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	require.NoError(s.t, s.cmd.Wait())
}

// broker is an embedded broker that can be restarted at its address.
type broker struct {
	t   *testing.T
	dir string
	*embedded.Server
}

func startBroker(t *testing.T) *broker {
	b := &broker{t: t, dir: t.TempDir()}
	b.start("127.0.0.1:0")
	t.Cleanup(func() { b.Stop() })
	return b
}

func (b *broker) start(listen string) {
	var err error
	b.Server, err = embedded.Start(embedded.Config{Dir: b.dir, Listen: listen, NoSync: true})
	require.NoError(b.t, err)
}

func (b *broker) restart() {
	b.Stop()
	b.start(strings.TrimPrefix(b.URL, "nats://"))
}

// address is the broker's, with the token.
func (b *broker) address() string {
	return strings.Replace(b.URL, "nats://", "nats://"+b.Token+"@", 1)
}

// books writes outcomes as workers do: each over the one before.
type books struct {
	t    *testing.T
	q    *queue.Queue
	at   time.Time
	seqs map[string]uint64
	last map[string]string // the outcome that stands
}

func openBooks(t *testing.T, b *broker) *books {
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker = b.URL, b.Token, "books", true
	cfg.Present = func(context.Context, *queue.Bucket) ([]string, error) { return nil, nil }
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return &books{t: t, q: q, at: time.Now().UTC(), seqs: make(map[string]uint64), last: make(map[string]string)}
}

func (b *books) put(i int, outcome order.Outcome) {
	b.t.Helper()
	no := fmt.Sprintf("A-%d", i)
	b.at = b.at.Add(time.Millisecond)
	r := &order.Record{OrderNo: no, IntentID: "i-" + no, WriteID: b.at.String(), SettledAt: b.at, Settled: 1}
	r.SetOutcome(outcome)
	require.EventuallyWithT(b.t, func(c *assert.CollectT) { // the broker may be restarting
		seq, err := b.q.Store().PutRecord(b.t.Context(), no, r, b.seqs[no])
		if stored, readErr := b.q.Store().Record(b.t.Context(), no); err != nil && readErr == nil && stored.Record != nil && stored.Record.WriteID == r.WriteID {
			seq, err = stored.Seq, nil // only the confirmation was lost
		}
		require.NoError(c, err)
		b.seqs[no], b.last[no] = seq, outcome.String()
	}, time.Minute, 10*time.Millisecond)
}

// told reports whether the sender has kept that all of it was delivered.
func (b *books) told() bool {
	e, err := b.q.Bucket().Get(b.t.Context(), "notify.sender")
	var kept notify.Kept
	return err == nil && json.Unmarshal(e.Value, &kept) == nil && kept.Position.Seq == slices.Max(slices.Collect(maps.Values(b.seqs)))
}
