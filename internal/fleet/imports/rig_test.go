package imports

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// What the tests do to a queue.
var (
	startBroker = queuetest.Start
	openQueue   = queuetest.Open
	body        = queuetest.Body
	publish     = queuetest.Publish
)

func requireBalanced(t *testing.T, q *queue.Queue) *audit.AuditResult {
	t.Helper()
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}
