package gate

import (
	"testing"

	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) {
	patient.Bubbles()
	patient.Main(m)
}
