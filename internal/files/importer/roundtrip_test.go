package importer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rowsOf checks a file and returns its rows, also those with a question.
func rowsOf(t *testing.T, f *File) (rows []Row) {
	t.Helper()
	_, err := f.Check(t.Context())
	require.NoError(t, err)
	_, err = f.scan(t.Context(), func(chunk []Row) error {
		rows = append(rows, chunk...)
		return nil
	})
	require.NoError(t, err)
	return rows
}

// TestRoundTrip: results and rejects keep each cell byte for byte, and a results file
// that is imported again has the same submission in each row.
func TestRoundTrip(t *testing.T) {
	q := openQueue(t)
	parts := []string{"a", "\r", "\n", "\r\n", "\"", "'", "=", "+", "-", "@", "＝", "－", ",", ";", "\t", " ", "1", "\\.", "é", "(", ""}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 12))
		comma, end := []string{",", ";", "\t"}[r.IntN(3)], []string{"\n", "\r\n", "\r"}[r.IntN(3)]
		cell := func() string {
			var b strings.Builder
			for range r.IntN(6) {
				b.WriteString(parts[r.IntN(len(parts))])
			}
			return b.String()
		}
		quote := func(cell string) string { return `"` + strings.ReplaceAll(cell, `"`, `""`) + `"` }
		var want [][]string
		content := []string{"", "\ufeff"}[r.IntN(2)] + strings.Join([]string{"order_no", "timeout", "note", "last"}, comma) + end
		for i := range 8 {
			row := []string{"A-" + string(rune('a'+i)), "30", cell(), cell()}
			want = append(want, row)
			content += strings.Join([]string{row[0], row[1], quote(row[2]), quote(row[3])}, comma) + end
		}
		f := openText(t, content, skipInvalid)
		rows := rowsOf(t, f)
		for i, row := range rows {
			require.Equal(t, want[i], row.Cells, "%q", content)
		}
		var results, rejects strings.Builder
		_, err := f.WriteResults(t.Context(), q, &results, FormatCSV)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(results.String(), end))
		again := rowsOf(t, openText(t, results.String(), skipInvalid))
		require.Len(t, again, len(rows))
		for i, row := range rows {
			require.Equal(t, row.Cells, again[i].Cells[:4], "%q became %q", content, results.String())
			require.Equal(t, row.OrderNo, again[i].OrderNo)
			require.Equal(t, row.Order.BodyHash(), again[i].Order.BodyHash())
		}
		require.NoError(t, f.WriteRejects(t.Context(), &rejects))
		bad := rowsOf(t, openText(t, rejects.String(), skipInvalid))
		for _, row := range rows {
			if row.Err != nil {
				require.Equal(t, row.Cells, bad[0].Cells[:4], "%q became %q", content, rejects.String())
				bad = bad[1:]
			}
		}
		require.Empty(t, bad)
	}
}

// TestQuotedLineEndsArriveInPieces: a line end inside quotes may be cut anywhere.
func TestQuotedLineEndsArriveInPieces(t *testing.T) {
	for _, end := range []string{"\r\n", "\r"} {
		content := strings.ReplaceAll("order_no,timeout,note|A-1,30,\"a\r\nb\r\r\nc\nd\r\"|A-2,30,x|", "|", end)
		for n := 1; n < 12; n++ {
			f, err := Open(&pieces{newReader([]byte(content)), n}, Options{File: "x"})
			require.NoError(t, err)
			rows := rowsOf(t, f)
			require.Equal(t, "a\r\nb\r\r\nc\nd\r", rows[0].Cells[2])
			require.Equal(t, "x", rows[1].Cells[2])
		}
	}
}
