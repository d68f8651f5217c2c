package status

import (
	"testing"

	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// What the tests do to a queue.
var (
	startBroker = queuetest.Start
	openQueue   = queuetest.Open
	body        = queuetest.Body
	intent      = queuetest.Intent
	publish     = queuetest.Publish
	pull        = queuetest.Pull
	report      = queuetest.Report
	settleAs    = queuetest.Settle
)
