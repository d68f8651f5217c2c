package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/patient"
	"orderpost/internal/program"
	"orderpost/internal/program/deadletter"
	"orderpost/internal/program/demo"
	"orderpost/internal/program/enqueue"
	"orderpost/internal/program/orderpost"
	"orderpost/internal/program/sandbox"
	"orderpost/internal/program/worker"
)

// TestProgramsNoticeAFullDisk: each program is started by program.Main, and
// one whose output cannot be written fails and says so.
func TestProgramsNoticeAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	for name, run := range map[string]program.RunFunc{
		"deadletter": deadletter.Run, "demo": demo.Run, "enqueue": enqueue.Run, "orderpost": orderpost.Run, "sandbox": sandbox.Run, "worker": worker.Run,
	} {
		var errOut patient.Buffer
		code := program.Guard(name, run)(t.Context(), []string{"--help"}, nil, strings.NewReader(""), full, &errOut)
		require.Equal(t, program.ExitFailed, code, name)
		require.Equal(t, name+": the output is not complete: standard output could not be written: write /dev/full: no space left on device\n", errOut.String())
	}
	mains, err := filepath.Glob("../../cmd/*/main.go")
	require.NoError(t, err)
	require.Len(t, mains, 6)
	proofs, err := filepath.Glob("../../proof/cmd/*/main.go")
	require.NoError(t, err)
	require.Len(t, proofs, 3)
	mains = append(mains, proofs...)
	for _, main := range mains {
		source, err := os.ReadFile(main)
		require.NoError(t, err)
		require.Contains(t, string(source), "program.Main(", main)
	}
}
