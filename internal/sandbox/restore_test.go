package sandbox

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server with a restored ledger answers as the one that created the orders.
func TestRestore(t *testing.T) {
	a := start(t, nil)
	require.Equal(t, http.StatusOK, a.post("A-1").status)
	entry, ok := a.server.Lookup("A-1")
	require.True(t, ok)

	b := start(t, nil)
	b.server.Restore("A-1", entry)
	got, ok := b.server.Lookup("A-1")
	require.True(t, ok)
	entry.Attempts = 0 // of this server
	require.Equal(t, entry, got)
	require.Equal(t, a.post("A-1").status, b.post("A-1").status)
	require.Equal(t, 1, b.server.Created("A-1"))
	require.Equal(t, int64(1), b.server.Ledger().OrdersCreated)
	require.Equal(t, int64(1), b.server.Ledger().Creations)
}
