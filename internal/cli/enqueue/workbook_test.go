package enqueue

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
	"orderpost/internal/testing/xlsxtest"
)

// TestWorkbook: a workbook from its bad cells to its results, which are a workbook that
// replaces earlier results, and nothing else.
func TestWorkbook(t *testing.T) {
	settings := brokerSettings(t)
	dir := t.TempDir()
	write := func(name string, rows ...string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, xlsxtest.Book{Sheets: []string{xlsxtest.Rows(rows...)}}.Bytes(), 0o600))
		return path
	}
	texts := xlsxtest.Texts
	file := write("orders.xlsx", texts("order_no", "timeout"), texts("A-1", "30"), `<c><v>42</v></c>`+texts("30"))
	got := run(t, settings, "", file)
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, file+":Orders!A3: column order_no: 42 is stored as a number, which keeps no leading zeros")

	got = run(t, settings, "", file, "--skip-invalid", "--batch", "march", "--direct")
	require.Equal(t, cli.ExitPartial, got.code, got.errOut)
	require.Contains(t, got.out, "read from the sheet Orders\n       1 enqueued\n")
	rejects := file + ".rejects.xlsx"
	require.Contains(t, got.out, "the bad rows are in "+rejects)
	require.Equal(t, cli.ExitPartial, run(t, settings, "", file, "--skip-invalid", "--batch", "march", "--direct").code, "the same rejects are no obstacle")
	require.Contains(t, run(t, settings, "", rejects).errOut, rejects+":Orders!A2: column order_no: 42 is stored as a number")
	got = run(t, settings, "", rejects, "--accept", "order_no=excel_number", "--direct")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)

	out := filepath.Join(dir, "out.XLSX")
	for range 2 { // the second one replaces the first
		got = run(t, settings, "", "results", "march", "-o", out)
		require.Equal(t, cli.ExitPartial, got.code, got.errOut)
		content, err := os.ReadFile(out)
		require.NoError(t, err)
		h, err := importer.ReadHead(bytes.NewReader(content), importer.Options{File: "out"}, 2)
		require.NoError(t, err)
		require.Equal(t, importer.FormatXLSX, h.Format)
		require.Equal(t, []string{"A-1", "42"}, h.Columns[0].Samples)
		require.Equal(t, []string{"pending", "pending"}, h.Columns[2].Samples)
	}
	got = run(t, settings, "", "results", "march", "-o", rejects)
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errOut, "exists and holds no results of an import")
	got = run(t, settings, "", file, "--results", file, "--skip-invalid")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errOut, "is the imported file")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	got = run(t, settings, string(content), "-", "--dry-run", "--accept", "order_no=excel_number")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.out, `{"order_no":"42","timeout":30}`, "from standard input")
}
