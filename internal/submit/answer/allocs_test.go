//go:build !race

package answer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// With the race detector on, pools lose what they hold.
func TestALookAtAnAcceptanceAllocatesNothing(t *testing.T) {
	raw := []byte(`{"code":0,"message":"ok","data":{"id":"x"}}`)
	require.Zero(t, testing.AllocsPerRun(100, func() { examine(raw, "n") }))
}
