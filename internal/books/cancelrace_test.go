package books

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two persons cancel an import, and a third lets it go on. It goes on, so it does not
// count as cancelled.
func TestAnImportThatWasResumedIsNotCancelled(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	feeds(t, q, Lease{Owner: "x", Worker: "w1"})
	waitIn(t, q, "march", 4)
	require.NoError(t, SaveImport(t.Context(), q, &Import{Batch: "march", Rows: 4, Done: 4}))
	ended := make(chan error, 2)
	for _, by := range []string{"anna", "bert"} {
		go func() {
			_, err := CancelBatch(t.Context(), q, "march", by)
			ended <- err
		}()
	}
	require.Eventually(t, func() bool {
		held, err := ReadHold(t.Context(), q, "march")
		require.NoError(t, err)
		return len(held) == 2
	}, time.Minute, time.Millisecond)
	i, err := ReadImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.False(t, i.CancelledAt.IsZero())
	_, err = ResumeImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, ErrResumed)
	require.ErrorIs(t, <-ended, ErrResumed)
	i, err = ReadImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.True(t, i.CancelledAt.IsZero(), "cancelled at %s", i.CancelledAt)
	require.Equal(t, 4, waits(t, q, "march"))
}
