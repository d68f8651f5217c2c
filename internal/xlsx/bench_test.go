package xlsx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/xlsx"
	"orderpost/internal/xlsx/xlsxtest"
)

// BenchmarkRows reads the rows of a workbook whose texts are shared.
//
//	go test ./internal/xlsx -run XXX -bench Rows -benchtime 1000000x
func BenchmarkRows(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "big.xlsx"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = f.Close() })
	xlsxtest.WriteBig(f, b.N, []string{"order_no", "timeout", "item", "customer", "note"}, func(i int) []any {
		return []any{fmt.Sprintf("ORDER-%010d", i), 30, "filter Ø 40 mm stainless", fmt.Sprintf("customer number %d", i), fmt.Sprintf("ring twice, then wait %0100d", i)}
	})
	info, err := f.Stat()
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	book, err := xlsx.Open(f, info.Size(), b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, book.Close()) }()
	sheet, err := book.Sheet("")
	require.NoError(b, err)
	rows, err := book.Rows(sheet)
	require.NoError(b, err)
	defer func() { require.NoError(b, rows.Close()) }()
	for range b.N + 1 {
		_, err := rows.Next(5)
		require.NoError(b, err)
	}
}
