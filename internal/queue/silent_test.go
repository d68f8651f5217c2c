package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A hold that the broker does not store is not waited for as one whose broker is out of
// reach: the person who wants to stop the fleet must hear of it.
func TestAHoldThatIsNotStoredIsToldSoon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(furnished(t, dir).Stop)
	q, _ := patientQueue(t, dir, time.Hour)
	q.bucket.silentTerm = time.Second
	require.NoError(t, q.Bucket().PutSoon(t.Context(), "fleet.hold", "held"))
	require.NoError(t, q.Conn.js.DeleteStream(t.Context(), q.bucket.stream())) // nobody confirms writes then, as with a full disk
	err := q.Bucket().PutSoon(t.Context(), "fleet.hold", "held")
	require.ErrorIs(t, err, ErrSilent)
	require.ErrorContains(t, err, "its disk may be full or failing")
	require.NotErrorIs(t, err, ErrUnreachable)
	_, err = q.Bucket().SwapSoon(t.Context(), "fleet.hold", "held", 1)
	require.ErrorIs(t, err, ErrSilent)
}
