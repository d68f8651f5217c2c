package orderpost_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

func config(dir string) broker.Config {
	cfg := broker.Config{Queue: queue.DefaultConfig(), DataDir: dir}
	cfg.Queue.BrokerWait = time.Minute
	return cfg
}

// left is a data folder whose worker was stopped.
func left(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := start(t, dir)
	cfg := config(dir).Queue
	cfg.URL, cfg.Token, cfg.Worker, cfg.Living = s.URL, s.Token, true, fleet.Living
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	q.Close()
	s.Stop()
	return dir
}

func start(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// TestABrokerThatIsBeingRestartedIsWaitedFor: its store is there, and its
// address is not.
func TestABrokerThatIsBeingRestartedIsWaitedFor(t *testing.T) {
	told, opened := opening(t, left(t), func(dir string) { start(t, dir) })
	require.NoError(t, opened)
	require.Contains(t, told, "the broker answered after")
}

// TestABrokerThatLostItsStreamsIsNamed by the address that it was found at.
func TestABrokerThatLostItsStreamsIsNamed(t *testing.T) {
	dir := t.TempDir()
	start(t, dir).Stop()
	var at string
	_, err := opening(t, dir, func(dir string) { at = start(t, dir).URL })
	var exit *cli.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitUnreachable, exit.Code)
	require.ErrorContains(t, err, "no stream ORDERS at "+at+": no worker has worked with this broker yet")
}

// opening opens the broker of a folder that is waited for, until it is there;
// it returns what was told last.
func opening(t *testing.T, dir string, starts func(dir string)) (last string, err error) {
	t.Helper()
	told := make(chan string, 8)
	opened := make(chan error, 1)
	go func() {
		_, done, err := broker.Open(t.Context(), config(dir), broker.Options{Name: "test", Stderr: &bytes.Buffer{}, Tell: func(line string) { told <- line }})
		done()
		opened <- err
	}()
	require.Contains(t, <-told, "waiting for the broker: no worker runs an embedded broker in the data folder")
	starts(dir)
	err = <-opened
	select {
	case last = <-told:
	default:
	}
	return last, err
}

// TestAFolderWithoutAStoreIsAMistake: nothing is waited for.
func TestAFolderWithoutAStoreIsAMistake(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Queue.ConnectTimeout = time.Hour
	_, done, err := broker.Open(t.Context(), cfg, broker.Options{Name: "test", StartStopped: true, Stderr: &bytes.Buffer{}})
	done()
	require.ErrorIs(t, err, queue.ErrUnreachable)
	require.ErrorContains(t, err, "ORDERPOST_DATA_DIR")
}

// TestPatient: the flag beats the environment, and a broker that stays away ends
// the command with 4 and the line that goes on.
func TestPatient(t *testing.T) {
	environ := map[string]string{"ORDERPOST_BROKER_WAIT": "3m"}
	run := func(args ...string) (code int, said string, wait time.Duration) {
		cmd := &cobra.Command{Use: "watch", RunE: func(*cobra.Command, []string) error {
			var cfg broker.Config
			require.NoError(t, cli.ReadEnv(&cfg, environ))
			wait = cfg.Queue.BrokerWait
			return fmt.Errorf("read: %w: no answer", queue.ErrUnreachable)
		}}
		var out bytes.Buffer
		code = cli.Execute(context.Background(), broker.Patient(cmd, environ, broker.AgainFollow), args, nil, &out, &out)
		return code, out.String(), wait
	}
	code, said, wait := run("a b", "it's")
	require.Equal(t, cli.ExitUnreachable, code)
	require.Equal(t, 3*time.Minute, wait)
	require.Equal(t, "watch: read: broker out of reach: no answer\nRun it again when the broker is back; the orders go on without this program:\n  watch 'a b' 'it'\\''s'\n", said)
	_, _, wait = run("--broker-wait", "40s")
	require.Equal(t, 40*time.Second, wait)
	code, said, _ = run("--broker-wait", "soon")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, said, "is not a duration such as 500ms, 30s or 2h")
}

// TestWhatWasNeverAskedForHasNoEffect: only a request that may have been sent may have taken effect.
func TestWhatWasNeverAskedForHasNoEffect(t *testing.T) {
	run := func(do func() error) string {
		cmd := &cobra.Command{Use: "hold", RunE: func(*cobra.Command, []string) error { return do() }}
		var out bytes.Buffer
		code := cli.Execute(t.Context(), broker.Patient(cmd, map[string]string{}, broker.AgainWrite), nil, nil, &out, &out)
		require.Equal(t, cli.ExitUnreachable, code, &out)
		return out.String()
	}
	sent := run(func() error { return fmt.Errorf("write: %w", queue.ErrUnreachable) })
	require.Contains(t, sent, "Run it again when the broker is back; it may have taken effect, and doing it twice does no harm:\n  hold\n")
	unsent := run(func() error {
		_, done, err := broker.Open(t.Context(), config(t.TempDir()), broker.Options{Name: "test", Stderr: &bytes.Buffer{}})
		done()
		return err
	})
	require.Contains(t, unsent, "Run it again when the broker is back; nothing was changed:\n  hold\n")
}

func TestWhereTheCopyLies(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct{ tmp, data, want string }{
		{"", dir, dir},
		{"elsewhere", dir, "elsewhere"},
		{"", filepath.Join(dir, "missing"), os.TempDir()},
		{"", file, os.TempDir()},
		{"", "", os.TempDir()},
	} {
		require.Equal(t, c.want, broker.TempDir(map[string]string{"TMPDIR": c.tmp}, c.data), c)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
