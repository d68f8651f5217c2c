package chaos

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each fault fits the product as it is, and all of them compile.
func TestEveryPlantFitsTheProduct(t *testing.T) {
	all := overlay{}
	for name := range plants {
		alone := overlay{}
		require.NoError(t, alone.plant(t.Context(), name))
		require.NotEmpty(t, alone)
		require.NoError(t, all.plant(t.Context(), name))
	}
	list, err := all.write(t.TempDir())
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "orderpost/internal/worker").CombinedOutput()
	require.NoError(t, err, string(out))
	none, err := overlay{}.write(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, none, "without --plant and --clocks the programs are what the product is")
}
