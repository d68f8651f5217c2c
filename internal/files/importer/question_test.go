package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestSpoiledOrderNumbers: what spreadsheets make of order numbers is asked
// about, by cell and with both cures; and the answer is believed.
func TestSpoiledOrderNumbers(t *testing.T) {
	cases := map[Code][]string{
		CodeError: {"#REF!", "#N/A", "#NV", "#N/D", "#WERT!", "#NAME?", "#DIV/0!", "#BEZUG!", "#VALEUR!", "#ZAHL!", "#NULL!", "#NUM!", "#VALUE!",
			"#NOM?", "#¡REF!", "#¿NOMBRE?", "#¡DIV/0!", "#RIF!", "#VERW!", "#SPILL!", "#ÜBERLAUF!", "#ССЫЛКА!", "#DZIEL/0!", "########", "###", "Err:502", "Err :508"},
		CodeExcel: {"1.2E+12", "1,23457E+11", "4E+15", "4.00638E+12", "1.23456789012346E+018", "-4E+15", "1e+15", "1E5", "1.2e12", "4,00638E12", "1e-5", "-1.5E-07",
			"1001.0", "1001,00", "-7.0", "1,001", "12,345,678.90", "1'001", "1’234’567"},
		CodeRounded:    {"1234567890123450000", "12345678901234500", "1000000000001230000000"},
		CodeDate:       {"31.12.2026", "31.12.26", "12/31/2026", "1/2/2026", "31/12/26", "31-12-2026", "2026-12-31", "2026/12/31", "31.12.2026 00:00:00", "02. Jan", "2-Jan", "02-Jan", "Jan-26", "Jan 26", "01. Mrz", "1-Mär", "janv-26", "2-févr", "02-Jan-26", "2-ene", "Mrz 26", "Mar-2026", "2-Jan-1999"},
		CodeInvisible:  {"A\u00ad1", "A\u00a01", "A\u202f1", "A\u200b1", "A\u200d1", "A\ufeff1", "A\u202e1", "A\x001", "A\x1b1", "A\t1", "A\ufffd1", "A\u20031", "\u00adA", "A\u034f1", "A\U000e00411", "A\u17b41"},
		CodeApostrophe: {"'=A1", "'+A1", "'-A1", "'@A1", "'=", "''=A1", "'0071", "'A"},
		CodeQuoted:     {`=""A-1""`, `=""0071""`, "'A-1'", `""A-1""`, "“A-1”", "„A-1“", "«A-1»", "‘A-1’", "`A-1`", "「A-1」", "A-1”", "“A-1", "b'A-1'"},
		CodeNoOrder: {"order_no", "Order_No", "nan", "NaN", "-nan", "None", "null", "NULL", "(null)", "[NULL]", "<NA>", "NaT", "undefined", "N/A", `\N`, "inf", "true", "[object Object]",
			"-----", "=====", "-", "?", "***", "…", "##", "+---+", "Total", "TOTAL:", "Grand Total", "Summe", "Zwischensumme:", "Total général", "A-1 Total", "Total (12)", "合計", "Итого", "i alt"},
	}
	require.Len(t, cases, len(Questions())-3, "the others are about numbers")
	for code, cells := range cases {
		for _, cell := range cells {
			row := fmt.Sprintf("order_no,timeout\nX-1,30\n\"%s\",30\n", cell)
			cell := strings.ReplaceAll(cell, `""`, `"`)
			got := refusals(t, openText(t, row))
			require.True(t, strings.HasPrefix(got, "orders.csv:3:1: column order_no: "), got)
			require.True(t, strings.HasSuffix(got, "--accept order_no="+string(code)), "%q: %s", cell, got)

			accept := mapped(Mapping{Accept: map[string][]Code{order.FieldOrderNo: {code}}})
			_, orders := bodies(t, openText(t, row, accept))
			require.Len(t, orders, 2, "%q", cell)

			line := fmt.Sprintf("{\"order_no\":%q,\"timeout\":30}\n", cell)
			if strings.ContainsAny(cell, "\x00\x1b\u00ad\ufeff\u202e\u200b\u200d\U000e0041") {
				continue // Go quotes these as JSON does not
			}
			require.Contains(t, refusals(t, openText(t, line)), "orders.csv:1: column order_no: ")
			_, orders = bodies(t, openText(t, line, accept))
			require.Len(t, orders, 1, "%q", cell)
		}
	}
}

// TestOrderNumbersThatAreRight are not asked about.
func TestOrderNumbersThatAreRight(t *testing.T) {
	for _, fine := range []string{"12E5", "1.2", "+49", "E+12", "1E+", "A 1", "#1", "#17", "A#REF!", "#ref", "1.2.3", "2026-13-31", "2026-1", "123/2026", "12/2026",
		"10-11-26", "MAR-26", "2-JAN", "32.13.2026", "Order-26", "may1", "1234567890123456789", "1000000000000000000", "12345678901234560", "123456789012345", "01234567890123450000",
		"Käse 1", "A'=1", "1.5E5x", "12E-5A", "1001.5", "1.001", "1,01", "TOTAL-1", "Totals4711", "null-1", "Nathan", "order_no-1", "№7", "Σ1", "名", "-5", "+1", "O'Neil", "12.34.5678", "Jan-1", "march-0001", "may 4711", "Err:1", "12:30"} {
		_, got := bodies(t, openText(t, fmt.Sprintf("order_no,timeout\n\"%s\",30\n", fine)))
		require.Len(t, got, 1, fine)
	}
}

// TestRowsThatAreNoOrders are asked about, also where their cells have not the columns' types, and
// where the numbers are made.
func TestRowsThatAreNoOrders(t *testing.T) {
	made := mapped(Mapping{OrderNoTemplate: "X-{row}"})
	for _, c := range []struct{ content, want string }{
		{"order_no,timeout,a\nA-1,30,x\nORDER_NO,TIMEOUT,a\n", `orders.csv:3:1: column order_no: "ORDER_NO" is the name of a column: the row is the header again`},
		{"order_no,timeout,a\n--------,-------,---\nA-1,30,x\n", `orders.csv:2:1: column order_no: "--------" has neither letters nor digits`},
		{"order_no,timeout,a\nA-1,30,x\nSumme,,30\n", `orders.csv:3:1: column order_no: "Summe" is the word of a row of totals; remove the row, or correct the cell (--skip-rows 3 leaves it out). If it is right as it is: --accept order_no=no_order`},
	} {
		require.Contains(t, refusals(t, openText(t, c.content)), c.want)
	}
	renamed := mapped(Mapping{Rename: map[string]string{"Auftrag": "order_no"}})
	require.Contains(t, refusals(t, openText(t, "Auftrag,timeout\nA-1,30\nAuftrag,timeout\n", renamed)), `orders.csv:3:1: column Auftrag: "Auftrag" is the name of a column`)
	for _, c := range []struct{ row, want string }{
		{"item,qty,timeout", `orders.csv:3:1: column item: "item" is the name of a column`},
		{"---,---,---", `orders.csv:3:1: column item: "---" has neither`},
		{"Total,12,", `orders.csv:3:1: column item: "Total" is the word of a row of totals`},
		{",Total,12", `orders.csv:3:2: column qty: "Total" is the word of a row of totals`},
	} {
		require.Contains(t, refusals(t, openText(t, "item,qty,timeout\nx,1,30\n"+c.row+"\n", made)), c.want)
	}
	for _, fine := range []string{"item,2,30", "-,2,30", "null,1,30", "x,Total,30"} {
		_, got := bodies(t, openText(t, "item,qty,timeout\n"+fine+"\n", made))
		require.Len(t, got, 1, fine)
	}
}

// TestSpoiledCells: other columns are asked about what no text looks like.
func TestSpoiledCells(t *testing.T) {
	for cell, code := range map[string]Code{
		"4,00638E+12": CodeExcel, "4.00638E+12": CodeExcel, "#NV": CodeError, "########": CodeError, "'=1+1": CodeApostrophe, `=""01067""`: CodeQuoted, "'-5": CodeApostrophe,
		"a\x00b": CodeInvisible, "1234567890123450000": CodeRounded,
	} {
		content := fmt.Sprintf("order_no;timeout;Art. Nr\nA-1;30;\"%s\"\n", cell)
		require.Contains(t, refusals(t, openText(t, content)), "orders.csv:2:3: column Art. Nr: ")
		require.Contains(t, refusals(t, openText(t, content)), "--accept 'Art. Nr="+string(code)+"'")
		m := Mapping{Rename: map[string]string{"Art. Nr": "sku"}}
		require.Contains(t, refusals(t, openText(t, content, mapped(m))), "--accept sku="+string(code))
		m.Accept = map[string][]Code{"sku": {code}}
		_, got := bodies(t, openText(t, content, mapped(m)))
		require.Len(t, got, 1, cell)
		m.Accept = map[string][]Code{"order_no": {code}}
		require.Contains(t, refusals(t, openText(t, content, mapped(m))), "--accept sku="+string(code), "another column's answer")
	}
	for _, fine := range []string{"31.12.2026", "2-Jan", "5E+1", "1.5E-05", "10 €", "soft\u00adhyphen", "10\u00a0€", "#1", "Err", "'quoted'", "12E+5"} {
		_, got := bodies(t, openText(t, fmt.Sprintf("order_no;timeout;note\nA-1;30;%s\n", fine)))
		require.Len(t, got, 1, fine)
	}
	require.Contains(t, refusals(t, openText(t, "order_no,timeout,n:number\nA-1,30,4.00638E+12\n")), "--accept n=excel_number")
	for want, m := range map[string]Mapping{
		`accept: there is no field "b" among order_no, timeout`: {Accept: map[string][]Code{"b": {CodeDate}}},
	} {
		require.Contains(t, refusals(t, openText(t, "order_no,timeout\nA,30\n", mapped(m))), want)
	}
	require.ErrorContains(t, Mapping{Accept: map[string][]Code{"a": {"padded"}}}.Validate(), `accept a: "padded" is none of excel_number, `)
	require.Contains(t, refusals(t, openText(t, oneOrder, mapped(Mapping{Accept: map[string][]Code{"item": {CodeDate}}}))), "NDJSON rows are orders already")
}

// TestRoundedByTheColumn: a column of long numbers, some of which end in zeros
// by chance, was not rounded; one in which all do was.
func TestRoundedByTheColumn(t *testing.T) {
	column := func(n int, rounded func(i int) bool) string {
		var b strings.Builder
		b.WriteString("order_no,timeout,track\n")
		for i := range n {
			track := fmt.Sprintf("%d", 1234567890123456789+i*7919)
			if rounded(i) {
				track = track[:15] + "0000"
			}
			fmt.Fprintf(&b, "A-%d,30,%s\n", i, track)
		}
		return b.String()
	}
	_, got := bodies(t, openText(t, column(1000, func(i int) bool { return i == 500 })))
	require.Len(t, got, 1000, "one in a thousand may be chance")
	require.Contains(t, refusals(t, openText(t, column(50, func(i int) bool { return i == 40 }))), "orders.csv:42:3: column track: ")
	all := refusals(t, openText(t, column(1000, func(int) bool { return true })))
	require.Contains(t, all, "stopped after 20 bad rows")
	require.Contains(t, all, "orders.csv:2:3: column track: ")

	f := openText(t, column(1000, func(i int) bool { return i < 300 }), skipInvalid)
	s, got := bodies(t, f)
	require.Equal(t, 300, s.Invalid)
	require.Len(t, got, 700)
	var out strings.Builder
	require.NoError(t, f.WriteRejects(t.Context(), &out))
	require.Equal(t, 301, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), ",excel_rounded,")
}

// TestOwnResultsComeBack: a results file, imported again, stands for the same
// orders, whatever its cells begin with.
func TestOwnResultsComeBack(t *testing.T) {
	q := openQueue(t)
	content := joined("order_no,timeout,note", "=A1,30,=1+1", "@B,30,-1+1", "'=C,30,''+x", "D,30,'x")
	answer := mapped(Mapping{Accept: map[string][]Code{"order_no": {CodeApostrophe}, "note": {CodeApostrophe}}})
	f := openText(t, content, answer)
	_, want := bodies(t, f)
	publish(t, q, f)
	work(t, q, 4, nil)
	var out strings.Builder
	_, err := f.WriteResults(t.Context(), q, &out, FormatCSV)
	require.NoError(t, err)
	require.Contains(t, out.String(), "\n'=A1,30,'=1+1,accepted,")
	require.Contains(t, out.String(), "\n''=C,30,'''+x,accepted,")

	back := openText(t, out.String(), answer)
	_, got := bodies(t, back)
	require.Equal(t, want, got)
	done := publish(t, q, back)
	require.Equal(t, map[Fate]int{Settled(order.OutcomeAccepted): 4}, done.Fates)
	var again strings.Builder
	_, err = back.WriteResults(t.Context(), q, &again, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, out.String(), again.String())

	bad := openText(t, strings.Replace(out.String(), "@B,30", "@B,soon", 1), answer, skipInvalid)
	_, err = bad.Check(t.Context())
	require.NoError(t, err)
	var rejects strings.Builder
	require.NoError(t, bad.WriteRejects(t.Context(), &rejects))
	_, got = bodies(t, openText(t, strings.Replace(rejects.String(), "soon", "30", 1)))
	require.Equal(t, want[1:2], got, "rejects are written as they were")
}

// TestSkippedQuestionsAreLookedUp: a row that was skipped for a question, and
// that somebody said yes to in another import, has that one's outcome.
func TestSkippedQuestionsAreLookedUp(t *testing.T) {
	q := openQueue(t)
	content := joined("order_no,timeout", "A-1,30", "2026-12-31,30", "A-2,soon")
	skipped := openText(t, content, skipInvalid)
	require.Equal(t, map[Fate]int{Stored: 1, Invalid: 2}, publish(t, q, skipped).Fates)
	tally, err := skipped.WriteResults(t.Context(), q, nil, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, Tally{outcomePending: 1, outcomeNothing: 2}, tally)
	publish(t, q, openText(t, content, skipInvalid, mapped(Mapping{Accept: map[string][]Code{"order_no": {CodeDate}}})))
	work(t, q, 2, nil)
	tally, err = skipped.WriteResults(t.Context(), q, nil, FormatCSV)
	require.NoError(t, err)
	require.Equal(t, Tally{"accepted": 2, outcomeNothing: 1}, tally)
}
