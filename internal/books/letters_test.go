package books

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// TestWouldDropForetellsADrop of every letter of a page, also where two of them
// are about one order_no.
func TestWouldDropForetellsADrop(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	free, waits := deadLetter(t, q, "A-1"), deadLetter(t, q, "A-2")
	publish(t, q, intent("A-2", "again"))
	would, err := WouldDrop(t.Context(), q, []*settle.Letter{waits, free, waits})
	require.NoError(t, err)
	require.Equal(t, []*settle.Letter{free}, would)
	_, err = q.Operator.Drop(t.Context(), waits, settle.Person{Name: "anna"})
	require.ErrorIs(t, err, settle.ErrPending)
	gone, err := q.Operator.Drop(t.Context(), free, settle.Person{Name: "anna"})
	require.NoError(t, err)
	require.False(t, gone)
	none, err := DryRunReplay(t.Context(), q, nil, settle.ReplayOptions{})
	require.NoError(t, err)
	require.Empty(t, none)
}
