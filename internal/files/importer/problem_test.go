package importer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestPagesHaveNoFlags: what a page shows of a mistake advises no flag of enqueue.
func TestPagesHaveNoFlags(t *testing.T) {
	const head = "order_no,timeout,qty\n"
	mapped := func(m Mapping) func(*Options) { return func(o *Options) { o.Mapping = m } }
	for content, change := range map[string]func(*Options){
		head + "1.2E+15,30,1\n":                                     nil,
		head + "A,30,'=1\n":                                         nil,
		"order_no,timeout,qty:number\n" + "A,30,\"1,5\"\n":          nil,
		"order_no,timeout,qty:number\n" + "A,30,\"1,234\"\n":        nil,
		"order_no,timeout,qty:int\n" + "A,30,\n":                    nil,
		head + "A,30,\xff\n":                                        func(o *Options) { o.Encoding = UTF8 },
		head + "A,30,\xff\x81\n":                                    nil,
		"order_no,timeout,\xff\n" + "A,30,x\n":                      func(o *Options) { o.Encoding = UTF8 },
		"Bestellung;timeout\nA;30\n":                                nil,
		"order_no;item\nA;x\n":                                      nil,
		"order_no,timeout,qty:integer\nA,30,1\n":                    nil,
		head + "B,30,1\n":                                           mapped(Mapping{Set: map[string]string{order.FieldOrderNo: "A"}}),
		head + "C,30,1\n":                                           mapped(Mapping{Accept: map[string][]Code{"qty": {CodeComma}}}),
		head + "D,30,1\n":                                           mapped(Mapping{Accept: map[string][]Code{"qty": {CodeThousands}}}),
		"[{}]":                                                      nil,
		`{"order_no":"A","timeout":30,"_not_before":"2026"}` + "\n": nil,
	} {
		o := Options{File: "orders.csv"}
		if change != nil {
			change(&o)
		}
		f, err := Open(strings.NewReader(content), o)
		if err == nil {
			_, err = f.Check(t.Context())
		}
		require.Error(t, err, content)
		require.Regexp(t, `--[a-z]|enqueue`, err.Error(), "a terminal has flags")
		require.NotRegexp(t, `--[a-z]|enqueue`, Plain(err))
	}
}

// TestLongNamesInAdvice: advice quotes no name that nobody can read.
func TestLongNamesInAdvice(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for content, want := range map[string]string{
		"order_no,timeout," + long + "\nA,30,1.2E+15\n":          "excel_number for xxx",
		"order_no,timeout," + long + ":number\nA,30,\"1,234\"\n": "thousands for xxx",
		"order_no,timeout,a=b\nA,30,'=1\n":                       "apostrophe for a=b, under accept in a mapping file (--mapping)",
	} {
		text := refusals(t, openText(t, content))
		require.Contains(t, text, want)
		require.NotContains(t, text, "--accept")
		require.Less(t, len(text), 1000)
	}
	text := refusals(t, openText(t, "order_no,timeout,"+long+"\nA,30,1\n", func(o *Options) {
		o.Mapping = Mapping{Accept: map[string][]Code{long: {CodeComma}}}
	}))
	require.Contains(t, text, "has no decimal comma")
	require.Less(t, len(text), 1000)
}
