package enqueue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// childArgs makes the test's own binary the enqueue program, so that it can be
// killed for real.
const childArgs = "ORDERPOST_TEST_ENQUEUE"

// TestChild is that program; without the variable there is nothing to run.
func TestChild(t *testing.T) {
	args := os.Getenv(childArgs)
	if args == "" {
		require.NotEmpty(t, os.Args)
		return
	}
	os.Exit(Run(t.Context(), strings.Split(args, "\n"), cli.Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}

// TestKilledFiveTimes: killed at random points and run again, the stream holds
// each row once.
func TestKilledFiveTimes(t *testing.T) {
	const rows = 30_000
	q, settings := startStreams(t)
	file := filepath.Join(t.TempDir(), "big.csv")
	var b strings.Builder
	b.WriteString("order_no,timeout\n")
	for i := range rows {
		fmt.Fprintf(&b, "K-%d,30\n", i)
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	stored := func() uint64 {
		c, err := q.Census.Count(t.Context())
		require.NoError(t, err)
		return c.LastIntent
	}
	for range 5 {
		child := exec.Command(os.Args[0], "-test.run", "^TestChild$")
		child.Env = []string{childArgs + "=" + file + "\n--direct\n--rate\n4000", "TMPDIR=" + t.TempDir(), "ORDERPOST_NATS_URL=" + settings["ORDERPOST_NATS_URL"]}
		require.NoError(t, child.Start())
		until := stored() + 1 + rand.Uint64N(rows/8)
		require.Eventually(t, func() bool { return stored() >= until }, 30*time.Second, time.Millisecond)
		require.NoError(t, child.Process.Kill())
		require.Error(t, child.Wait())
	}
	require.Less(t, stored(), uint64(rows), "it was killed in the middle")
	got := run(t, settings, "", file, "--direct")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.EqualValues(t, rows, stored(), got.out)
	counts, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, rows, counts.Pending)
}
