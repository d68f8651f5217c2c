package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestASignalIsToldInTheUsersWords(t *testing.T) {
	for _, tt := range []struct {
		err  error
		says string
	}{
		{context.Canceled, "prog: interrupted\n"},
		{fmt.Errorf("read results: %w", context.Canceled), "prog: interrupted: read results\n"},
		{fmt.Errorf("%w while waiting", context.Canceled), "prog: interrupted: context canceled while waiting\n"},
		{errors.Join(context.Canceled, errors.New("progress not saved")), "prog: interrupted: context canceled\nprogress not saved\n"},
		{errors.New("disk full"), "prog: disk full\n"},
		{&ExitError{Code: ExitFailed}, "prog: exit status 1\n"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		root := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { cancel(); return tt.err }}
		var stderr bytes.Buffer
		code := Execute(ctx, root, nil, nil, &stderr, &stderr)
		require.Equal(t, ExitInterrupted, code)
		require.Equal(t, tt.says, stderr.String())
	}
}

func TestWithoutASignalAnErrorIsToldAsItIs(t *testing.T) {
	root := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { return context.Canceled }}
	var stderr bytes.Buffer
	require.Equal(t, ExitFailed, Execute(t.Context(), root, nil, nil, &stderr, &stderr))
	require.Equal(t, "prog: context canceled\n", stderr.String())
}

// A test binary may have arguments of its own, which are not the program's.
func TestAProgramWithoutArgumentsTakesNoneFromItsProcess(t *testing.T) {
	before := os.Args
	t.Cleanup(func() { os.Args = before })
	os.Args = append(slices.Clone(before), "import")
	root := &cobra.Command{Use: "prog", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	var stderr bytes.Buffer
	require.Equal(t, ExitDone, Execute(t.Context(), root, nil, nil, &stderr, &stderr), &stderr)
}

// cobra checks groups of flags where no hook sees its error.
func TestFlagsThatExcludeEachOtherAreWrongUsage(t *testing.T) {
	root := &cobra.Command{Use: "prog"}
	sub := &cobra.Command{Use: "check", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	sub.Flags().Bool("answer", false, "")
	sub.Flags().Bool("broker", false, "")
	sub.MarkFlagsMutuallyExclusive("answer", "broker")
	root.AddCommand(sub)
	var stderr bytes.Buffer
	require.Equal(t, ExitUsage, Execute(t.Context(), root, []string{"check", "--answer", "--broker"}, nil, &stderr, &stderr))
	require.Regexp(t, `^prog: .*answer broker.*\(see prog check --help\)\n$`, stderr.String())
}

// An empty value, as a script gives whose variable is not set, is not taken for no value where the
// command would do more then.
func TestEmptyValuesAreWrongUsage(t *testing.T) {
	run := func(args ...string) (ran bool, code int, text string) {
		root := &cobra.Command{Use: "prog"}
		drop := &cobra.Command{Use: "drop", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { ran = true; return nil }}
		drop.Flags().String("batch", "", "")
		drop.Flags().StringSlice("outcome", nil, "")
		drop.Flags().String("note", "", "")
		NotEmpty(drop, "batch", "outcome")
		root.AddCommand(drop)
		var stderr bytes.Buffer
		code = Execute(t.Context(), root, append([]string{"drop"}, args...), nil, &stderr, &stderr)
		return ran, code, stderr.String()
	}
	ran, code, text := run("--outcome=", "--batch", "")
	require.False(t, ran)
	require.Equal(t, ExitUsage, code)
	require.Equal(t, "prog: --batch is empty: give a value, or leave the flag out\n--outcome is empty: give a value, or leave the flag out (see prog drop --help)\n", text)
	ran, code, text = run("--outcome=expired", "--note", "")
	require.True(t, ran)
	require.Equal(t, ExitDone, code, text)
}
