package importer

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forgetPeak makes peak count from now on.
func forgetPeak(tb testing.TB) {
	tb.Helper()
	debug.FreeOSMemory()
	require.NoError(tb, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}

// peak returns the most resident memory of the process in MB.
func peak(tb testing.TB) float64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(tb, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(tb, err)
	return float64(kb) / 1000
}
