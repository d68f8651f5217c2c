package importer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/xlsxtest"
)

// endingWith makes a file end with a trailer.
func endingWith(t testing.TB, text string, change ...func(*Options)) func(*Options) {
	t.Helper()
	trailer, err := parseTrailer(text)
	require.NoError(t, err)
	return func(o *Options) {
		o.Mapping.Trailer = trailer
		for _, c := range change {
			c(o)
		}
	}
}

const bank = "{value: T, rows: 2, sums: {amount: 3}}"

// TestTrailer: a file whose trailer has other totals is refused, and so is one whose trailer is missing, not the last
// record, there twice, or not to be read. It is no order.
func TestTrailer(t *testing.T) {
	const orders = "order_no;timeout;amount\nA-1;30;0.10\nA-2;30;0.20\n"
	good := func(text, trailer string, want int, change ...func(*Options)) {
		t.Helper()
		s, all := bodies(t, openText(t, text, endingWith(t, trailer, change...)))
		require.Equal(t, want, s.Rows, text)
		require.Len(t, all, want)
	}
	good(orders+"T;2;0.30\n", bank, 2)
	good(orders+"\n T;+0002;00000.3\n\n", bank, 2)
	good(orders+"T;2;0.30;more;cells\n", bank, 2)
	good(orders+"T\n", "{value: T}", 2)
	good("order_no;timeout;amount\nT;0;0\n", bank, 0)
	good("order_no,timeout,amount\nA,30,\"1.234,50\"\nT,1,\"01.234,5\"\n", bank, 1, func(o *Options) {
		o.Mapping.Types = map[string]Type{"amount": TypeNumber}
		o.Mapping.Accept = map[string][]Code{"amount": {CodeComma, CodeThousands}}
	})
	good("order_no,timeout,\nA,30\nT,,1\n", "{value: T, rows: 3}", 1, func(o *Options) { o.Mapping.LeaveOut = []string{""} })
	good("order_no,timeout,_row,_column,_code,_message\nA,30,2,,x,x\n", bank, 1) // a rejects file has the orders alone

	refused := func(want, text, trailer string, change ...func(*Options)) {
		t.Helper()
		change = append(change, func(o *Options) { o.SkipInvalid = true })
		require.Equal(t, want, refusals(t, openText(t, text, endingWith(t, trailer, change...))), text)
	}
	const correct = "; correct the file, or trailer in the mapping"
	refused("orders.csv:4: by the trailer, the file is not whole: orders to send: 2, and 3 were expected; the sum of amount is 0.3, and 0.31 was expected; nothing was stored: get the file again", orders+"T;3;0.31\n", bank)
	refused("orders.csv:5: by the trailer, the file is not whole: orders to send: 2, and 3 were expected (bad rows: 1); nothing was stored: get the file again", orders+"A-3;soon;0\nT;3;0.30\n", bank)
	refused("orders.csv:3: the file ends without its trailer, a row whose first cell is \"T\", and may have been cut off; get the whole file, or correct trailer in the mapping", orders, bank)
	refused("orders.csv:1: the file ends without its trailer, a row whose first cell is \"T\", and may have been cut off; get the whole file, or correct trailer in the mapping", "order_no;timeout;amount\n", bank)
	refused("orders.csv:5: a row behind the trailer in line 4, which must be the last; get the file again, or correct trailer in the mapping", orders+"T;2;0.30\nA-3;30;1\n", bank)
	refused("orders.csv:5: a second trailer, the first is in line 4; a file ends with one: if it is several files, import each by itself", orders+"T;2;0.30\nT;2;0.30\n", bank)
	refused(`orders.csv:4:2: the trailer: rows: "two" in column 2 is not a number of orders`+correct, orders+"T;two;0.30\n", bank)
	refused(`orders.csv:4:2: the trailer: rows: "2.5" in column 2 is not a number of orders`+correct, orders+"T;2.5;0.30\n", bank)
	refused(`orders.csv:4:3: the trailer: sums.amount: "0,30" in column 3 is not a number such as 1234.56`+correct, orders+"T;2;0,30\n", bank)
	refused(`orders.csv:4:3: the trailer: sums.amount: "1e999999999" in column 3 is not a number such as 1234.56`+correct, orders+"T;2;1e999999999\n", bank)
	refused(`orders.csv:4:3: the trailer: sums.amount: "" in column 3 is not a number such as 1234.56`+correct, orders+"T;2\n", bank)
	refused(`orders.csv: trailer: rows: "count" is not the number of a column from 1 on`, orders, "{value: T, rows: count}")
	refused(`orders.csv: trailer: member "type" is for NDJSON; a row is a trailer if its first cell is "T"`, orders, "{value: T, member: type}")

	const lines = `{"order_no":"A","timeout":30,"amount":1.5,"note":"trailer"}` + "\n"
	const json = "{member: head.type, value: trailer, rows: count, sums: {amount: sum}}"
	good(lines+`{"head":{"type":"tr\u0061iler"},"count":1,"sum":"1.50"}`, json, 1)
	good(lines+`{"end": true, "count":1}`, "{member: end, value: true, rows: count}", 1)
	refused(`orders.csv:2: the trailer: sums.amount: the line has no member sum`+correct, lines+`{"head":{"type":"trailer"},"count":1}`, json)
	refused(`orders.csv:2: the trailer: rows: "1 " in member count is not a number of orders`+correct, lines+`{"head":{"type":"trailer"},"count":"1 "}`, json)
	refused(`orders.csv:1: the file ends without its trailer, a line whose head.type is "trailer", and may have been cut off; get the whole file, or correct trailer in the mapping`, lines, json)
	refused(`orders.csv: trailer: member is missing: name the member of NDJSON that is "T" in the trailer`, lines, bank)
}

// TestTrailerOfASheet may be wider than the header.
func TestTrailerOfASheet(t *testing.T) {
	sheet := func(rows string) []byte {
		return xlsxtest.Book{Sheets: []string{xlsxtest.Rows(texts("order_no", "timeout"), texts("A-1", "30"), texts("T")+`<c/><c><v>`+rows+`</v></c>`)}, Names: []string{"Orders"}}.Bytes()
	}
	wide := endingWith(t, "{value: T, rows: 3}", func(o *Options) { o.Mapping.LeaveOut = []string{""} })
	s, all := bodies(t, openBytes(t, sheet("1"), wide))
	require.Equal(t, 1, s.Rows)
	require.Len(t, all, 1)
	require.Equal(t, "book.xlsx:Orders!3: by the trailer, the file is not whole: orders to send: 1, and 7 were expected; nothing was stored: get the file again", refusals(t, openBytes(t, sheet("7"), wide)))
}
