package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/sandbox"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/cli/worker"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
)

// A child of a test watches the folder childDir, and kills itself before its step number
// childStep; 0 = never.
const (
	childDir  = "ORDERPOST_TEST_WATCH"
	childStep = "ORDERPOST_TEST_STEP"
)

// brisk is for files that are complete when they are there.
var brisk = pace{look: 5 * time.Millisecond, settle: 10 * time.Millisecond, reread: 20 * time.Millisecond, first: 10 * time.Millisecond, longest: 50 * time.Millisecond}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	patient.Main(m)
}

func child(dir string) int {
	last, _ := strconv.ParseInt(os.Getenv(childStep), 10, 64)
	var steps atomic.Int64
	step := func(name string) {
		if !strings.HasPrefix(name, "after ") && steps.Add(1) == last {
			_, _ = os.Stdout.WriteString(name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	environ := cli.Environ(os.Environ())
	return cli.Execute(ctx, newCommand(environ, os.Stderr, options{brisk, step}), []string{dir, "--still", "10ms"}, nil, os.Stdout, os.Stderr)
}

const patience = time.Minute

// start runs a program until the test ends, or stop is called, which returns its exit code.
func start(t *testing.T, run cli.RunFunc, environ map[string]string, args ...string) (said *patient.Buffer, stop func() int) {
	t.Helper()
	said = &patient.Buffer{}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, environ, strings.NewReader(""), io.Discard, said) }()
	stop = sync.OnceValue(func() int {
		cancel()
		select {
		case c := <-code:
			return c
		case <-time.After(patience):
			t.Errorf("%v did not end:\n%s", args, said)
			return -1
		}
	})
	t.Cleanup(func() { stop() })
	return said, stop
}

// site is a worker with its broker, and the API.
type site struct {
	settings map[string]string
	api      string
	q        *queue.Queue
}

func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	said, _ := start(t, sandbox.Run, nil, "--addr", "127.0.0.1:0")
	s := &site{}
	saw(t, said, "Listening on ")
	_, after, _ := strings.Cut(said.String(), "Listening on ")
	s.api = strings.Fields(after)[0]
	s.settings = map[string]string{"ORDERPOST_API_URL": s.api, "ORDERPOST_API_KEY": "sandbox-key", "ORDERPOST_API_SECRET": "sandbox-secret",
		"ORDERPOST_DATA_DIR": filepath.Join(t.TempDir(), "data"), "ORDERPOST_NATS_LISTEN": "127.0.0.1:0", "ORDERPOST_OPS_ADDR": "", "USER": "anna"}
	for pair := range slices.Chunk(settings, 2) {
		s.settings[pair[0]] = pair[1]
	}
	said, _ = start(t, worker.Run, s.settings)
	saw(t, said, `"message":"working"`)
	cfg := queue.DefaultConfig()
	require.NoError(t, pool.JoinEmbedded(&cfg, s.settings["ORDERPOST_DATA_DIR"]))
	var err error
	s.q, err = queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(s.q.Close)
	return s
}

func saw(t *testing.T, said *patient.Buffer, what string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(said.String(), what) }, patience, 5*time.Millisecond, "never said %q, but:\n%s", what, said)
}

// watch watches a folder at a pace.
func (s *site) watch(t *testing.T, dir string, p pace, args ...string) (said *patient.Buffer, stop func() int) {
	t.Helper()
	if p == brisk { // where the file system does not tell who writes
		args = append(args, "--still", "10ms")
	}
	return start(t, func(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
		return cli.Execute(ctx, newCommand(environ, stderr, options{pace: p}), args, stdin, stdout, stderr)
	}, s.settings, append([]string{dir}, args...)...)
}

// created tells how often the API created each order.
func (s *site) created(t *testing.T) map[string]int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.api + "/_sandbox/orders")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	out := make(map[string]int)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var e struct {
			OrderNo string `json:"order_no"`
			Created int    `json:"created"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		if e.Created > 0 {
			out[e.OrderNo] = e.Created
		}
	}
	return out
}

// intents is how many intents were ever stored in the queue.
func (s *site) intents(t *testing.T) int {
	t.Helper()
	c, err := s.q.Census.Count(t.Context())
	require.NoError(t, err)
	return int(c.LastIntent)
}

// put makes a file complete in one moment.
func put(t *testing.T, path, content string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	require.NoError(t, os.WriteFile(tmp, []byte(content), 0o640))
	require.NoError(t, os.Rename(tmp, path))
}

func folders(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, os.MkdirAll(path, 0o750))
	}
}

// files lists the files below a folder. The lock is not among them.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it went meanwhile
		}
		if err == nil && (!e.IsDir() || filepath.Base(filepath.Dir(path)) == ".orderpost") && e.Name() != "lock" {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	}))
	slices.Sort(out)
	return out
}

// holds waits until a folder has these files and no others.
func holds(t *testing.T, dir string, said *patient.Buffer, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	var have []string
	ok := func() bool { have = files(t, dir); return slices.Equal(have, want) }
	for began := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		require.Less(t, time.Since(began), patience, "want %q\nhave %q\n%s", want, have, said)
	}
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}
