package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// prices makes a file with a column of prices.
func prices(cells ...string) string {
	lines := []string{"order_no\ttimeout\tprice:number"}
	for i, cell := range cells {
		lines = append(lines, fmt.Sprintf("A-%d\t30\t%s", i+1, cell))
	}
	return joined(lines...)
}

func accepts(codes ...Code) func(*Options) {
	return mapped(Mapping{Accept: map[string][]Code{"price": codes}})
}

// sentPrices gives the prices as they are sent.
func sentPrices(t *testing.T, f *File) (prices []string) {
	t.Helper()
	_, got := bodies(t, f)
	for _, body := range got {
		_, price, _ := strings.Cut(body, `"price":`)
		prices = append(prices, strings.TrimSuffix(price, "}"))
	}
	return prices
}

// TestDecimalComma: a column whose numbers all fit a decimal comma is asked about, and
// the answer is believed to the last digit.
func TestDecimalComma(t *testing.T) {
	content := prices("1,07", "-0,5", "12", "123456789,0123")
	got := refusals(t, openText(t, content))
	require.Equal(t, 3, strings.Count(got, "\n")+1, got)
	require.Contains(t, got, `orders.csv:2:3: column price:number: "1,07" is 1.07 if the column's decimal sign is the comma, and no number of the column contradicts that. If it is: --accept price=decimal_comma`)
	require.Equal(t, []string{"1.07", "-0.5", "12", "123456789.0123"},
		sentPrices(t, openText(t, content, accepts(CodeComma))))
	for _, nothing := range []string{EmptyOmit, EmptyNull} {
		f := openText(t, prices("1,07", ""), accepts(CodeComma), func(o *Options) { o.Mapping.Empty = nothing })
		require.Len(t, sentPrices(t, f), 2)
	}

	// Too many digits for the API are refused, as they are with a point.
	require.Contains(t, refusals(t, openText(t, prices("1,23456789012345678"), accepts(CodeComma))), "orders.csv:2:3: ")
	require.Contains(t, refusals(t, openText(t, prices("1,07", "1.5"), accepts(CodeComma))),
		`orders.csv:3:3: column price:number: "1.5" is not a number with a decimal comma such as 12,5`)
}

// TestMixedColumnsAreRefused cell by cell, also where a cell alone would be a number.
func TestMixedColumnsAreRefused(t *testing.T) {
	f := openText(t, prices("1,07", "1.5", "1,234", "1.234", "7", "1 234"), skipInvalid)
	s, got := bodies(t, f)
	require.Equal(t, 4, s.Invalid)
	require.Len(t, got, 2, "1.5 and 7")
	require.Equal(t, []InvalidKind{{CodeType, 3, 2}, {CodeThousands, 1, 7}}, s.InvalidKinds)
	require.Equal(t, `orders.csv:2:3: column price:number: "1,07" is unclear beside "1.5" in line 3, which uses point and comma the other way; write all numbers of the column in one way`, s.Bad[0].Error())
	require.Contains(t, s.Bad[1].Error(), `orders.csv:4:3: column price:number: "1,234" is unclear beside "1,07" in line 2`)
	require.Contains(t, s.Bad[2].Error(), `orders.csv:5:3: column price:number: "1.234" is unclear beside "1,07" in line 2`)
	require.Equal(t, "1.234", s.Bad[2].Value)
	var rejects strings.Builder
	require.NoError(t, f.WriteRejects(t.Context(), &rejects))
	require.Equal(t, 5, strings.Count(rejects.String(), "\n"))

	// An answer does not make a mixed column a clear one.
	require.Contains(t, refusals(t, openText(t, prices("1.5", "1,234"), accepts(CodeComma))), `"1,234" is unclear beside "1.5" in line 2`)
	got = strings.Split(refusals(t, openText(t, prices("1,07", "1.234"), accepts(CodeThousands))), "\n")
	require.Len(t, got, 2)
	require.Contains(t, got[1], `"1.234" is 1234 if the column's decimal sign is the comma`)
}

// TestThousands: separators are asked about, and their groups are counted.
func TestThousands(t *testing.T) {
	for content, want := range map[string]string{
		prices("1,234.56"):          `"1,234.56" is 1234.56 if what stands between its digits separates thousands. If it does: --accept price=thousands`,
		prices("1 234"):             `"1 234" is 1234 if`,
		prices("1\u202f234\u202f5"): "is not a number such as 12.5",
		prices("1,234"):             `"1,234" is 1234 if it has a thousands separator, and 1.234 if it has a decimal comma; say which: --accept price=thousands, or --accept price=decimal_comma`,
		prices("1.50", "1,234"):     `"1,234" is 1234 if what stands between its digits separates thousands. If it does: --accept price=thousands`,
		prices("1,50", "1,234"):     `"1,234" is 1.234 if the column's decimal sign is the comma`,
		prices("1,50", "1.234"):     `"1.234" is 1234 if the column's decimal sign is the comma`,
	} {
		require.Contains(t, refusals(t, openText(t, content)), want)
	}
	require.Equal(t, []string{"1234.56", "1234567", "-12345", "1.234", "1234", "1234.5"},
		sentPrices(t, openText(t, prices("1,234.56", "1,234,567", "-12 345", "1.234", "1'234", "1\u00a0234.5"), accepts(CodeThousands))))
	require.Equal(t, []string{"1234.56", "1234567", "1234", "1.234", "1234.5"},
		sentPrices(t, openText(t, prices("1.234,56", "1.234.567", "1.234", "1,234", "1’234,5"), accepts(CodeComma, CodeThousands))))
	require.Contains(t, refusals(t, openText(t, prices("1,07", "1.234"), accepts(CodeComma))), `orders.csv:3:3: column price:number: "1.234" is 1234 if what stands between`)
	for _, bad := range []string{"1,23,456", "0,123,456", "1234,567,890", "1 234,567 8", ",5", "1,", "1,,234", " 123", "1,234 ", "+1,5", "1,5-", "€ 1,50", "1,-234", "--1,5", "- 123", "1e5,000", "."} {
		require.Contains(t, refusals(t, openText(t, prices(bad), accepts(CodeThousands, CodeComma))), "is not a number with a decimal comma", bad)
	}
}

// TestThousandsOfWholeNumbers: in a column of whole numbers both signs can only separate
// thousands, and not both in one column.
func TestThousandsOfWholeNumbers(t *testing.T) {
	whole := func(cells ...string) string { return strings.Replace(prices(cells...), ":number", ":int", 1) }
	for _, cell := range []string{"1.234", "1,234", "1 234"} {
		require.Contains(t, refusals(t, openText(t, whole(cell))), fmt.Sprintf(`%q is 1234 if what stands between its digits separates thousands. If it does: --accept price=thousands`, cell))
		require.Equal(t, []string{"1234"}, sentPrices(t, openText(t, whole(cell), accepts(CodeThousands))))
	}
	for _, answer := range []func(*Options){accepts(), accepts(CodeThousands)} {
		got := refusals(t, openText(t, whole("1.234", "1,234"), answer))
		require.Contains(t, got, `orders.csv:2:3: column price:int: "1.234" is unclear beside "1,234" in line 3`)
		require.Contains(t, got, `orders.csv:3:3: column price:int: "1,234" is unclear beside "1.234" in line 2`)
	}
	require.Contains(t, refusals(t, openText(t, whole("1,5"), accepts(CodeThousands))), `"1,5" is not a whole number such as 30`)
	require.Contains(t, refusals(t, openText(t, whole("1"), accepts(CodeComma))), "accept price: a column of type int has no decimal comma; make it a number (--type price=number)")
	require.Contains(t, refusals(t, openText(t, "order_no,timeout,price\nA,30,1\n", accepts(CodeThousands))), "a column of type string has no thousands")
}

// TestColumnsAreReadToTheirEnd: a question about a column waits for its last cell.
func TestColumnsAreReadToTheirEnd(t *testing.T) {
	cells := make([]string, 1200)
	for i := range cells {
		cells[i] = "1,07"
	}
	got := refusals(t, openText(t, prices(cells...)))
	require.Contains(t, got, "stopped after 20 bad rows")
	require.Contains(t, got, "--accept price=decimal_comma")
	cells[1199] = "1.5"
	got = refusals(t, openText(t, prices(cells...)))
	require.Contains(t, got, `orders.csv:2:3: column price:number: "1,07" is unclear beside "1.5" in line 1201`)
	require.NotContains(t, got, "--accept")
}
