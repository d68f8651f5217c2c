package uploads

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
)

// TestAnotherTimeFails: to resume such an import would fail again. The page says what helps,
// without flags.
func TestAnotherTimeFails(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	u := checked(t, d, "times.csv", numbered(1, 3))
	require.Equal(t, Done, imported(t, d, u.ID, importer.Sending{NotBefore: time.Now().Add(time.Hour)}).Import.State)
	u = imported(t, d, u.ID, importer.Sending{NotBefore: time.Now().Add(2 * time.Hour)})
	require.Equal(t, Failed, u.Import.State)
	require.Contains(t, u.Import.Error, "3 orders are pending with the time")
	require.NotContains(t, u.Import.Error, "--")
}
