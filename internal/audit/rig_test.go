package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

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

func requireBalanced(t *testing.T, q *queue.Queue) *AuditResult {
	t.Helper()
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}
