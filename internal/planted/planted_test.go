package planted

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestANormalBuildHoldsNoFault: a worker that is built as usual contains neither the
// selector nor a name of a fault, nor their code. One that is built with the tag
// contains them, which proves that the search finds them.
func TestANormalBuildHoldsNoFault(t *testing.T) {
	marks := []string{"ORDERPOST_PLANTED_FAULT", "internal/planted.choose", "internal/worker.leak"}
	for _, f := range Faults() {
		if f != Leak && f != Blind { // words that others use, too
			marks = append(marks, string(f))
		}
	}
	for _, tag := range []string{"", "planted"} {
		path := filepath.Join(t.TempDir(), "worker")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", tag, "-o", path, "orderpost/cmd/worker").CombinedOutput()
		require.NoError(t, err, string(out))
		program, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, mark := range marks {
			require.Equal(t, tag != "", bytes.Contains(program, []byte(mark)), "%s, built with the tag %q", mark, tag)
		}
	}
}
