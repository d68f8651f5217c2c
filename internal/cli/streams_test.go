package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// full is a standard output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutputThatCannotBeWritten: a program whose output is lost has failed,
// whatever it thinks itself.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		returns, want int
		told          bool
	}{
		{cli.ExitDone, cli.ExitFailed, true}, {cli.ExitPartial, cli.ExitFailed, true}, {cli.ExitFailed, cli.ExitFailed, false},
		{cli.ExitUsage, cli.ExitUsage, false}, {cli.ExitInterrupted, cli.ExitInterrupted, false},
	} {
		run := cli.Guard("prog", func(_ context.Context, _ []string, _ map[string]string, _ io.Reader, stdout, _ io.Writer) int {
			_, _ = fmt.Fprintln(stdout, "a line")
			return c.returns
		})
		var stderr bytes.Buffer
		require.Equal(t, c.want, run(t.Context(), nil, nil, nil, full{}, &stderr))
		want := ""
		if c.told {
			want = "prog: the output is not complete: standard output could not be written: no space left on device\n"
		}
		require.Equal(t, want, stderr.String())
		var stdout bytes.Buffer
		require.Equal(t, c.returns, run(t.Context(), nil, nil, nil, &stdout, &stderr))
		require.Equal(t, "a line\n", stdout.String())
	}
}

// TestInputThatIsWaitedFor: a signal ends the wait, and input is handed out as
// it comes.
func TestInputThatIsWaitedFor(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	run := cli.Guard("prog", func(_ context.Context, _ []string, _ map[string]string, stdin io.Reader, _, _ io.Writer) int {
		lines := bufio.NewReader(stdin)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "first\n", line)
		stop()
		_, err = lines.ReadString('\n')
		require.ErrorIs(t, err, context.Canceled)
		return cli.ExitInterrupted
	})
	go func() { _, _ = io.WriteString(w, "first\n") }()
	require.Equal(t, cli.ExitInterrupted, run(ctx, nil, nil, r, io.Discard, io.Discard))

	long := strings.Repeat("0123456789", 100_000)
	got, err := io.ReadAll(cli.Interruptible(t.Context(), strings.NewReader(long)))
	require.NoError(t, err)
	require.Equal(t, long, string(got))
	require.False(t, cli.IsTerminal(cli.Interruptible(t.Context(), os.Stdin)) != cli.IsTerminal(os.Stdin))
}
