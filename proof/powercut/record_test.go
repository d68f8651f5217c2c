package powercut

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The changes to the worker fit the product as it is, and compile.
func TestTheWorkerToRecordIsBuilt(t *testing.T) {
	_, err := buildWorker(t.Context(), t.TempDir(), []string{"sync", "apart"})
	require.NoError(t, err)
}
