package letters

import (
	"testing"

	"orderpost/internal/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }
