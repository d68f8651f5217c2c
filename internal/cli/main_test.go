package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

const childMark = "ORDERPOST_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		cli.Main(untilEnded)
	}
	os.Exit(m.Run())
}

// untilEnded stands for a worker: it drains when its context ends. Its input ends
// with the test, and with the context, since Main guards it.
func untilEnded(ctx context.Context, _ []string, _ map[string]string, stdin io.Reader, stdout, _ io.Writer) int {
	_, _ = fmt.Fprintln(stdout, "working")
	_, _ = io.Copy(io.Discard, stdin)
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(stdout, "drained")
	} else {
		_, _ = fmt.Fprintln(stdout, "went on")
	}
	return cli.ExitDone
}

// TestSignalsEndAProgramInOrder: a worker whose terminal is closed drains like
// one that is asked to stop.
func TestSignalsEndAProgramInOrder(t *testing.T) {
	// Who runs the tests under nohup ignores SIGHUP, and so would the programs
	// that they start. A signal that is caught has its default again in those.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for name, c := range map[string]struct {
		signal syscall.Signal
		under  []string
		want   string
	}{
		"SIGTERM": {syscall.SIGTERM, nil, "drained"}, "SIGINT": {syscall.SIGINT, nil, "drained"}, "SIGHUP": {syscall.SIGHUP, nil, "drained"},
		"SIGHUP under nohup": {syscall.SIGHUP, []string{"nohup"}, "went on"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(c.under, os.Args[0])
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), childMark+"=1")
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			defer func() { _ = stdin.Close() }() // not before the end, unless the test says so
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			out := bufio.NewReader(stdout)
			line, err := out.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "working\n", line)
			require.NoError(t, cmd.Process.Signal(c.signal))
			if c.want == "went on" {
				require.NoError(t, stdin.Close())
			}
			rest, err := io.ReadAll(out)
			require.NoError(t, err)
			require.Equal(t, c.want, strings.TrimSpace(string(rest)))
			require.NoError(t, cmd.Wait())
		})
	}
}

func TestExitCode(t *testing.T) {
	cause := errors.New("no route")
	unreachable := &cli.ExitError{Code: cli.ExitUnreachable, Err: cause}
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{cause, 1},
		{unreachable, 4},
		{fmt.Errorf("importing: %w", unreachable), 4},
		{&cli.ExitError{Code: cli.ExitInterrupted}, 130},
	} {
		require.Equal(t, c.code, cli.ExitCode(c.err), "%v", c.err)
	}
	require.ErrorIs(t, unreachable, cause)
	require.Equal(t, "no route", unreachable.Error())
	require.Equal(t, "exit status 130", (&cli.ExitError{Code: 130}).Error())
}
