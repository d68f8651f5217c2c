package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/proof/overlay"
)

// clockProgram answers each line with its wall clock, in nanoseconds, and with what the monotonic
// clock says of the time since its start, in three ways. A deadline of an hour must not pass.
const clockProgram = `package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"
)

func main() {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan() && ctx.Err() == nil; {
		now := time.Now()
		deadline, _ := ctx.Deadline()
		fmt.Println(now.UnixNano(), int64(now.Sub(start)), int64(time.Since(start)), int64(time.Hour - time.Until(deadline)))
	}
}
`

// clocked builds clockProgram with clocks that can be set.
func clocked(t *testing.T, dir string) string {
	t.Helper()
	patched := overlay.Files{}
	require.NoError(t, clocks(t.Context(), patched))
	list, err := patched.Write(dir)
	require.NoError(t, err)
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte(clockProgram), 0o600))
	program, err := build(t.Context(), dir, "program", source, list)
	require.NoError(t, err)
	return program
}

// The wall clock of a running program is set ahead and back, and is right again, while its
// monotonic clock and its timers never notice. A program that starts finds the clock as it is.
func TestAWallClockStepsAndTheMonotonicOneDoesNot(t *testing.T) {
	dir := t.TempDir()
	program := clocked(t, dir)
	clock, err := newClock(filepath.Join(dir, "clock"))
	require.NoError(t, err)

	start := func(env ...string) (ask func(ahead time.Duration)) {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), env...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
		answers := bufio.NewReader(out)
		return func(ahead time.Duration) {
			t.Helper()
			from := time.Now()
			_, err := fmt.Fprintln(in)
			require.NoError(t, err)
			var wall int64
			var mono [3]int64
			_, err = fmt.Fscanln(answers, &wall, &mono[0], &mono[1], &mono[2])
			require.NoError(t, err)
			to := time.Now()
			shown := time.Unix(0, wall)
			require.False(t, shown.Before(from.Round(0).Add(ahead)) || shown.After(to.Round(0).Add(ahead)), "%s: the clock shows %s", ahead, shown)
			for _, d := range mono {
				require.Positive(t, d)
				require.LessOrEqual(t, time.Duration(d), to.Sub(began))
			}
		}
	}
	machine, ours := start(), start(clockVar+"="+clock.path)
	ahead := time.Duration(0)
	for _, by := range []time.Duration{0, time.Hour, -2 * time.Hour, 40 * 24 * time.Hour, -39*24*time.Hour - 23*time.Hour, -5 * time.Second, 5 * time.Second} {
		ahead += by
		require.NoError(t, clock.step(by))
		ours(ahead)
		start(clockVar + "=" + clock.path)(ahead)
		machine(0)
	}
	require.Zero(t, ahead)
}

// A program whose clock cannot be set must not run with the right one, and a Go whose time.Now
// is another one must not be built without the patch.
func TestAClockThatCannotBeSet(t *testing.T) {
	dir := t.TempDir()
	program := clocked(t, dir)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), clockVar+"="+filepath.Join(dir, "none"))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "cannot open")

	for _, source := range []string{"", "package time\n\nfunc Now() Time {\n\treturn now()\n}\n", clockAnchor + clockAnchor} {
		err := overlay.Files{"time.go": source}.Patch("time.go", clockAnchor, clockPatch)
		require.ErrorContains(t, err, "adapt the patch in proof")
	}
}

func TestStoredTimesThatGoBack(t *testing.T) {
	at, times := time.Now(), &storedTimes{}
	for _, by := range []time.Duration{0, time.Minute, -time.Millisecond, -5 * time.Second, time.Hour, -time.Hour, time.Second} {
		at = at.Add(by)
		require.Equal(t, max(0, -by).Truncate(time.Second), times.note(at))
	}
	require.Equal(t, 2, times.Back)
	require.Equal(t, time.Hour, times.Most)
}

// Clocks are set on every broker, and only if the run asks for it; a run whose clocks changed
// nothing shows nothing.
func TestClocksAreChosen(t *testing.T) {
	for broker, n := range map[string]int{embeddedBroker: 6, externalBroker: 6, clusterBroker: 7} {
		all, err := chosen(nil, broker, false, clocksPart)
		require.NoError(t, err)
		all = slices.DeleteFunc(all, func(f fault) bool { return f.part != clocksPart })
		require.Len(t, all, n, broker)
	}
	_, err := chosen([]string{"clock-broker-1h"}, externalBroker, false)
	require.ErrorContains(t, err, "clock-broker-1h needs --clocks")
	s := &summary{Faults: []*faultTally{{Fault: "clock-skew", Injected: 1}}, StoredTimes: []*storedTimes{{Stream: "ORDERS"}}}
	require.ErrorContains(t, s.clocksShown(), "shows nothing of clocks")
	s.StoredTimes[0].Back = 1
	require.NoError(t, s.clocksShown())
}
