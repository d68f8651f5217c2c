package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/submit/gate"
)

// TestReasons: what holds the workers is told once, in one order. Each worker counts an
// API's failures for itself, and one of them speaks for all.
func TestReasons(t *testing.T) {
	down := gate.APIFails + ": status 503"
	workers := []Presence{
		{Worker: "w-2", ShutMS: 5000, Reasons: []string{"held by anna", down + " (12 times)"}},
		{Worker: "w-1", ShutMS: 9000, Reasons: []string{down + " (19 times). Since then the account was asked", "held by anna"}},
		{Worker: "w-3", ShutMS: 4000, Reasons: []string{down + " (10 times)", "a rule holds"}},
	}
	want := []string{down + " (19 times). Since then the account was asked", "a rule holds", "held by anna"}
	require.Equal(t, want, Reasons(workers))
	workers[0], workers[2] = workers[2], workers[0]
	require.Equal(t, want, Reasons(workers), "whatever the order of the workers")
	require.Empty(t, Reasons(nil))
}
