package worker

import (
	"testing"

	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }
