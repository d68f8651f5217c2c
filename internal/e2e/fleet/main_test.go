package fleet

import (
	"testing"

	"go.uber.org/goleak"

	"orderpost/internal/e2e/child"
)

func TestMain(m *testing.M) {
	child.Main()
	goleak.VerifyTestMain(m)
}
