package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/demo"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/cli/sandbox"
	"orderpost/internal/cli/worker"
	"orderpost/internal/testing/patient"
)

// TestProgramsNoticeAFullDisk: each program is started by cli.Main, and
// one whose output cannot be written fails and says so.
func TestProgramsNoticeAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	for name, run := range map[string]cli.RunFunc{
		"deadletter": deadletter.Run, "demo": demo.Run, "enqueue": enqueue.Run, "orderpost": orderpost.Run, "sandbox": sandbox.Run, "worker": worker.Run,
	} {
		var errOut patient.Buffer
		code := cli.Guard(name, run)(t.Context(), []string{"--help"}, nil, strings.NewReader(""), full, &errOut)
		require.Equal(t, cli.ExitFailed, code, name)
		require.Equal(t, name+": the output is not complete: standard output could not be written: write /dev/full: no space left on device\n", errOut.String())
	}
	mains, err := filepath.Glob("../../../cmd/*/main.go")
	require.NoError(t, err)
	require.Len(t, mains, 6)
	proofs, err := filepath.Glob("../../../proof/cmd/*/main.go")
	require.NoError(t, err)
	require.Len(t, proofs, 3)
	mains = append(mains, proofs...)
	for _, main := range mains {
		source, err := os.ReadFile(main)
		require.NoError(t, err)
		require.Contains(t, string(source), "cli.Main(", main)
	}
}
