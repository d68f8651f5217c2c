package enqueue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// TestTheMappingOfAnEarlierImport is taken by its name, flags go before it, and whether spoiled cells are right is asked anew.
func TestTheMappingOfAnEarlierImport(t *testing.T) {
	_, settings := startStreams(t)
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	got := run(t, settings, "", file("may.csv", "Ref;timeout;price\nA-1;30;1,50\n31.12.2026;30;2,50\n"), "--batch", "may", "--rename", "Ref=order_no", "--type", "price=number", "--accept", "price=decimal_comma", "--accept", "order_no=excel_date")
	require.Equal(t, cli.ExitDone, got.code, got)
	june := file("june.csv", "Ref;timeout;price\nA-3;30;3,50\n")
	got = run(t, settings, "", june, "--mapping", "may", "--dry-run")
	require.Equal(t, cli.ExitDone, got.code, got)
	require.Contains(t, got.out, `{"order_no":"A-3","timeout":30,"price":3.5}`)
	require.Contains(t, run(t, settings, "", june, "--mapping", "may", "--set", "lot=7", "--dry-run").out, `"price":3.5,"lot":"7"}`)
	require.Contains(t, run(t, settings, "", file("july.csv", "Ref;timeout;price\n31.01.2027;30;3,50\n"), "--mapping", "may").errOut, "excel_date")
	got = run(t, settings, "", june, "--mapping", "april")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errOut, "--mapping: there is neither a file nor an import called april; orderpost enqueue status lists the imports")
	got = run(t, settings, "", june, "--mapping", "april.yaml")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errOut, "april.yaml: no such file")

	got = run(t, settings, "", june, "--mapping", "may", "--expect-rows", "2", "--expect-sum", "price=3.50")
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, "orders to send: 1, and 2 were expected (--expect-rows, --expect-sum); nothing was stored")
	require.Equal(t, cli.ExitDone, run(t, settings, "", june, "--mapping", "may", "--expect-rows", "1", "--expect-sum", "price=3.50").code)
}
