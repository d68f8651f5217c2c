package gate

import (
	"testing"

	"orderpost/internal/patient"
)

func TestMain(m *testing.M) {
	patient.Bubbles()
	patient.Main(m)
}
