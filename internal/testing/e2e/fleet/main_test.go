package fleet

import (
	"testing"

	"orderpost/internal/testing/e2e/child"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) {
	child.Main()
	patient.Main(m)
}
