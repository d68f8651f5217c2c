package fleet

import (
	"testing"

	"orderpost/internal/e2e/child"
	"orderpost/internal/patient"
)

func TestMain(m *testing.M) {
	child.Main()
	patient.Main(m)
}
