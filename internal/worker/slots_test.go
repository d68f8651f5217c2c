package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The number of orders that may be in hand changes at any moment. A pull for none would be
// answered with an order that nobody waits for.
func TestAPullIsNeverForNoOrder(t *testing.T) {
	asked := 0
	s := newSlots(1, func() int { asked++; return asked % 2 }) // 1, 0, 1, 0, …
	for free := 2; free > 0; free-- {
		n, err := s.takeForPull(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 1, n, "%d slots were free", free)
		s.pullDone(0)
		asked = 0
	}
}
