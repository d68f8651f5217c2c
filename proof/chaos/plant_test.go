package chaos

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/proof/overlay"
)

// Each fault fits the product as it is, and all of them compile.
func TestEveryPlantFitsTheProduct(t *testing.T) {
	all := overlay.Files{}
	for name := range plants {
		alone := overlay.Files{}
		require.NoError(t, plant(t.Context(), alone, name))
		require.NotEmpty(t, alone)
		require.NoError(t, plant(t.Context(), all, name))
	}
	list, err := all.Write(t.TempDir())
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "orderpost/internal/cli/service").CombinedOutput()
	require.NoError(t, err, string(out))
	none, err := overlay.Files{}.Write(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, none, "without --plant and --clocks the programs are what the product is")
}
