package importer

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order/schema"
	"orderpost/internal/testing/xlsxtest"
)

// under makes a file fulfil a schema.
func under(t testing.TB, text string) func(*Options) {
	t.Helper()
	s, err := schema.Parse("order.schema.json", []byte(text))
	require.NoError(t, err)
	return func(o *Options) { o.Schema = s }
}

const priced = `{"properties":{"price":{"type":"number","maximum":100},"to":{"properties":{"zip":{"pattern":"^[0-9]{5}$"}}}}}`

// TestSchema: a row that breaks the schema is named by its cell, in each format.
func TestSchema(t *testing.T) {
	good := "A-1,30,99.99,12345"
	csv := "order_no,timeout,price:number,to.zip\n" + good + "\n"
	s, orders := bodies(t, openText(t, csv, under(t, priced)))
	require.Equal(t, 1, s.Rows)
	require.Len(t, orders, 1)

	require.Equal(t, joined(
		`orders.csv:3:3: price: 100.01 is above the maximum, 100 (order schema, /properties/price/maximum)`,
		`orders.csv:4:4: to.zip: "1234" does not match the pattern ^[0-9]{5}$ (order schema, /properties/to/properties/zip/pattern)`),
		refusals(t, openText(t, csv+"A-2,30,100.01,12345\nA-3,30,1,1234\n", under(t, priced)))+"\n")
	require.Equal(t, `orders.csv:2: note: is missing (order schema, /required)`, refusals(t, openText(t, csv, under(t, `{"required":["note"]}`))))
	require.Equal(t, `orders.csv:2:1: order_no: "A-1" does not match the pattern ^B (order schema, /properties/order_no/pattern)`,
		refusals(t, openText(t, csv, under(t, `{"properties":{"order_no":{"pattern":"^B"}}}`))))
	require.Equal(t, `orders.csv:2:3: column items: items[0].price: 0 is below the minimum, 1 (order schema, /properties/items/items/properties/price/minimum)`,
		refusals(t, openText(t, "order_no,timeout,items:json\nA,30,\"[{\"\"price\"\":0}]\"\n", under(t, `{"properties":{"items":{"items":{"properties":{"price":{"minimum":1}}}}}}`))))
	require.Equal(t, `orders.csv:2: price: 101 is above the maximum, 100 (order schema, /properties/price/maximum)`,
		refusals(t, openText(t, `{"order_no":"A","timeout":1,"price":100}`+"\n"+`{"order_no":"B","timeout":1,"price":101}`+"\n", under(t, priced))))

	f := openBytes(t, xlsxtest.Book{Sheets: []string{xlsxtest.Rows(texts("order_no", "timeout", "price:number"),
		texts("A-1", "30")+`<c><v>100</v></c>`, texts("A-2", "30")+`<c><v>100.5</v></c>`)}, Names: []string{"Orders"}}.Bytes(), under(t, priced))
	require.Equal(t, `book.xlsx:Orders!C3: price: 100.5 is above the maximum, 100 (order schema, /properties/price/maximum)`, refusals(t, f))
}

// TestSchemaSkips: all passes over a file agree on the rows that break the schema, also if
// its file has changed since.
func TestSchemaSkips(t *testing.T) {
	path := t.TempDir() + "/order.schema.json"
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		old := time.Now().Add(-time.Hour).Add(time.Duration(len(text)) * time.Second)
		require.NoError(t, os.Chtimes(path, old, old))
	}
	write(priced)
	live, err := schema.Config{File: path}.Load(zerolog.Nop())
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("order_no,timeout,price:number\n")
	for i := range 1500 {
		fmt.Fprintf(&b, "A-%d,30,%d\n", i, 95+i%10) // 100, and 4 above it
	}
	b.WriteString("A-0,30,1\n") // twice, so the file is read again
	f := openText(t, b.String(), func(o *Options) { o.Schema, o.SkipInvalid = live, true })
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Every)
	require.Equal(t, []InvalidKind{{Code: CodeSchema, Rows: 600, Line: 8}, {Code: CodeDuplicate, Rows: 1, Line: 1502}}, s.InvalidKinds)
	first, err := f.Preview(t.Context(), 1)
	require.NoError(t, err)
	write(`{"properties":{"price":{"maximum":0}}}`)
	require.Eventually(t, func() bool { return live.Check(first[0].Order) != nil }, time.Minute, time.Millisecond, "the new schema is in force")
	rows, err := f.Preview(t.Context(), 2000)
	require.NoError(t, err)
	require.Len(t, rows, 900)
	var rejects bytes.Buffer
	require.NoError(t, f.WriteRejects(t.Context(), &rejects))
	require.Equal(t, 601+1, strings.Count(rejects.String(), "\n"))
	require.Contains(t, rejects.String(), "above the maximum")
}

// TestSchemaRefusesEveryRow says it once.
func TestSchemaRefusesEveryRow(t *testing.T) {
	content := "order_no,timeout,price\n" + strings.Repeat("A,30,5\n", 1000) // a text: no type is given
	const every = ` breaks the same rule of the order schema, as in 2:3: price: "5" is of the type string, not number (order schema, /properties/price/type); is the schema right, and has the column the type that it wants?`
	require.Equal(t, "orders.csv: every row that was read (20)"+every, refusals(t, openText(t, content, under(t, priced))))
	f := openText(t, content, under(t, priced), func(o *Options) { o.SkipInvalid = true })
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, "every row that was read (1000)"+every, s.Every)

	mixed := openText(t, content+"B,30,5\n", under(t, `{"properties":{"order_no":{"const":"B"}}}`), func(o *Options) { o.SkipInvalid = true })
	s, err = mixed.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Every, "one row is good")
}
