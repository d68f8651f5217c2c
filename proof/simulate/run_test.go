package simulate_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/proof/simulate"
)

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = simulate.Run(t.Context(), args, nil, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestASearchPrintsWhatItPlayed(t *testing.T) {
	code, stdout, stderr := run(t, "--seed", "1", "--schedules", "50", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	var s struct {
		Seed              uint64
		Schedules, Broken int
		Requests          int
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.EqualValues(t, 1, s.Seed)
	require.Equal(t, 50, s.Schedules)
	require.Zero(t, s.Broken)
	require.Positive(t, s.Requests)

	code, stdout, stderr = run(t, "--corrections", "--seed", "1", "--schedules", "20", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	requests := s.Requests
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Equal(t, 20, s.Schedules)
	require.NotEqual(t, requests, s.Requests)

	code, stdout, _ = run(t, "--schedules", "5")
	require.Equal(t, cli.ExitDone, code)
	require.Regexp(t, `^seed \d+: 5 schedules`, stdout, "a random seed is printed")
}

func TestATraceTellsOneSchedule(t *testing.T) {
	code, stdout, stderr := run(t, "--seed", "7", "--trace")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Contains(t, stdout, "settings")
	require.Contains(t, stdout, "stored")
	code, again, _ := run(t, "--seed", "7", "--trace")
	require.Equal(t, cli.ExitDone, code)
	require.Equal(t, stdout, again)
	code, about, _ := run(t, "--corrections", "--seed", "7", "--trace")
	require.Equal(t, cli.ExitDone, code)
	require.NotEqual(t, stdout, about)
	code, again, _ = run(t, "--schedule", "corrections:7")
	require.Equal(t, cli.ExitDone, code)
	require.Equal(t, about, again)
}

func TestAMutationIsNoticed(t *testing.T) {
	code, stdout, stderr := run(t, "--seed", "1", "--mutation", "R2", "--parallel", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Contains(t, stdout, "  schedule 1: ")
	require.Contains(t, stdout, "made short:")
	require.Contains(t, stdout, "go run ./proof/cmd/simulate --mutation R2 --schedule '1")

	code, _, stderr = run(t, "--seed", "1", "--mutation", "R1", "--schedules", "1")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, stderr, "mutation R1 was not noticed")
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"--mutation", "R99"}, {"--schedules", "0"}, {"--trace"}, {"--mutations", "--mutation", "R1"}, {"--corrections", "--schedule", "7"}, {"extra"}} {
		code, _, stderr := run(t, args...)
		require.Equal(t, cli.ExitUsage, code, "%v", args)
		require.Contains(t, stderr, "simulate:", "%v", args)
	}
}
