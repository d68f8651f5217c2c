package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// TestCancellationsAreNewerThanWhatWorkersKnow, also if the bucket was lost, and with whatever clock:
// a worker takes only a newer version.
func TestCancellationsAreNewerThanWhatWorkersKnow(t *testing.T) {
	n := open(t, startBroker(t), "w-1")
	const knows = int64(1) << 62 // the clock of whoever made it was a century ahead
	require.NoError(t, n.Appear(t.Context(), Presence{Worker: "w-1", ID: "1", Cancelled: knows}))
	var before int64
	for _, orderNo := range []string{"A-1", "A-2"} {
		stored, err := n.ChangeCancellations(t.Context(), func(marks []settle.Cancellation) ([]settle.Cancellation, bool) {
			return append(marks, settle.Cancellation{OrderNo: orderNo}), false
		})
		require.NoError(t, err)
		require.Greater(t, stored.Version, max(knows, before))
		before = stored.Version
		view, err := n.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, stored.Version, view.Cancelled.Version)
		require.Equal(t, []string{"w-1"}, view.Unaware(stored.Version))
	}
}
