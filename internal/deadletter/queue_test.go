package deadletter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// What the tests do to a queue.
var (
	startBroker    = queuetest.Start
	openQueue      = queuetest.Open
	body           = queuetest.Body
	intent         = queuetest.Intent
	publish        = queuetest.Publish
	pull           = queuetest.Pull
	report         = queuetest.Report
	settleAs       = queuetest.Settle
	lookup         = queuetest.Lookup
	letterOf       = queuetest.Letter
	requireDrained = queuetest.Drained
	deadLetter     = queuetest.DeadLetter
)

func requireBalanced(t *testing.T, q *queue.Queue) *audit.AuditResult {
	t.Helper()
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}

// replay replays a letter that was just listed, and makes sure that a dry run
// foretells what comes of it.
func replay(t *testing.T, q *queue.Queue, l *settle.Letter, o settle.ReplayOptions) settle.Replay {
	t.Helper()
	would, err := DryRunReplay(t.Context(), q, []*settle.Letter{l}, o)
	require.NoError(t, err)
	end, err := q.Operator.Replay(t.Context(), l, o)
	require.NoError(t, err)
	require.Equal(t, would[0], end, "what was foretold")
	return end
}
