package importer

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"

	"orderpost/internal/order"
)

// excelFile is what a German Excel writes: semicolons, CR LF, Windows-1252,
// umlauts, blank rows. menge gives a row's quantity.
func excelFile(t *testing.T, from, to int, menge func(i int) string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("order_no;timeout;artikel;menge:int;bemerkung\r\n")
	for i := from; i <= to; i++ {
		if i%1000 == 0 {
			b.WriteString(";;;;\r\n")
		}
		fmt.Fprintf(&b, "%08d;30;Möbelfüße Größe %d;%s;\"für Frau Weiß; 1. Stock\"\r\n", i, i%7, menge(i))
	}
	b.WriteString(";;;;\r\n;;;;\r\n")
	return encoded(t, charmap.Windows1252, b.String())
}

// german says the encoding of the file.
func german(o *Options) { o.Encoding = Windows1252 }

func plainMenge(i int) string { return fmt.Sprint(i%9 + 1) }

// TestExcelFile: rows as Excel writes them, some of them submitted the day
// before, some of those changed since: every row is explained.
func TestExcelFile(t *testing.T) {
	q := openQueue(t)
	const excelRows, before = 4000, 600
	verdicts := map[string]order.Verdict{}
	for i := 1; i <= before; i++ {
		switch i % 3 {
		case 1:
			verdicts[fmt.Sprintf("%08d", i)] = order.Rejected
		case 2:
			verdicts[fmt.Sprintf("%08d", i)] = order.Unsure
		}
	}
	publish(t, q, openText(t, excelFile(t, 1, before, plainMenge), german))
	work(t, q, before, verdicts)

	changed := func(i int) string {
		if i <= before && i%2 == 0 {
			return "99"
		}
		return plainMenge(i)
	}
	f := openText(t, excelFile(t, 1, excelRows, changed), german)
	done := publish(t, q, f)
	require.Equal(t, excelRows, done.Rows)
	require.Equal(t, excelRows/1000+2, done.Blank)
	require.Equal(t, Windows1252, done.Encoding)
	const each = before / 6 // of six kinds: three outcomes, changed or not
	require.Equal(t, map[Fate]int{
		Stored: excelRows - before, Corrected: each, Conflict: 2 * each,
		Settled(order.OutcomeAccepted): each, Settled(order.OutcomeRejected): each, Settled(order.OutcomeUnknown): each,
	}, done.Fates)

	work(t, q, excelRows-before+each, nil)
	var out strings.Builder
	tally, err := f.WriteResults(t.Context(), q, &out, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, Tally{"accepted": excelRows - before + 2*each, "rejected": each, "unknown": each, outcomeConflict: 2 * each}, tally)
	text, marked := strings.CutPrefix(out.String(), "\ufeff")
	require.True(t, marked, "else a spreadsheet would not read it as UTF-8")
	r := csv.NewReader(strings.NewReader(text))
	r.Comma = ';'
	rows, err := r.ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, excelRows+1)
	for i, row := range rows[1:] {
		require.Equal(t, fmt.Sprintf("%08d", i+1), row[0], "the file's order, leading zeros")
		require.Equal(t, fmt.Sprintf("Möbelfüße Größe %d", (i+1)%7), row[2])
		require.NotEmpty(t, row[5], "row %d has no outcome", i+1)
		require.NotEmpty(t, row[13], "row %d does not say whether it was created", i+1)
	}
}
