package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// deadLetter brings an order to an end that files a letter.
func deadLetter(t *testing.T, q *Queue, no string) *settle.Letter {
	t.Helper()
	publish(t, q, settle.Intent{OrderNo: no, Body: body(no), ID: "b1:" + no, Batch: "b1", Source: "march.csv:7"})
	r := report(order.Rejected, order.History{})
	r.Reason = "rule 2"
	settleAs(t, q, pull(t, q, 1)[0], r)
	requireDrained(t, q)
	return letterOf(t, q, no)
}

// replay replays a letter that was just listed, and makes sure that a dry run
// foretells what comes of it.
func replay(t *testing.T, q *Queue, l *settle.Letter, o settle.ReplayOptions) settle.Replay {
	t.Helper()
	would, err := q.Prospects(t.Context(), []*settle.Letter{l}, o)
	require.NoError(t, err)
	end, err := q.Replay(t.Context(), l, o)
	require.NoError(t, err)
	require.Equal(t, would[0], end, "what was foretold")
	return end
}
