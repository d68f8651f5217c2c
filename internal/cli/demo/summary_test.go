package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli/balance"
)

// TestHints: what the demo tells to type can be typed.
func TestHints(t *testing.T) {
	said := func(s summary) string {
		var b strings.Builder
		s.Books = &balance.Books{Balanced: true}
		s.printVerdict(&b)
		require.NotContains(t, b.String(), "./cmd/worker")
		require.NotContains(t, b.String(), "./cmd/enqueue")
		return b.String()
	}
	said1 := said(summary{File: DefaultFile, command: "demo", ExampleNo: "A-1", Example: "rejected"})
	require.Contains(t, said1, "  go run ./cmd/demo --data demo-data\n  ORDERPOST_DATA_DIR=demo-data go run ./cmd/orderpost order A-1\n")
	require.Contains(t, said1, "  go run ./cmd/demo FILE.csv\n")
	require.Contains(t, said(summary{File: "my.csv", command: "demo my.csv --set timeout=30", ExampleNo: "A-1"}), "  go run ./cmd/demo my.csv --set timeout=30 --data demo-data\n")
	require.Contains(t, said(summary{File: "my.csv", DataDir: "kept", ExampleNo: "A-1"}),
		"The data is kept in kept. To look at the letter:\n  ORDERPOST_DATA_DIR=kept go run ./cmd/orderpost order A-1\n")
	without := said(summary{File: "my.csv"})
	require.NotContains(t, without, "dead letter", "there is none")
	require.NotContains(t, without, "orderpost order")
}
