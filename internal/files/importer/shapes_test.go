package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"
)

// TestOldMac: lines that end in CR alone are lines, and are counted inside quotes, too.
func TestOldMac(t *testing.T) {
	content := strings.ReplaceAll(joined("order_no;timeout;item", "A-1;30;\"a\nb\"", "A-2;soon;x"), "\n", "\r")
	require.Contains(t, refusals(t, openText(t, content)), "orders.csv:4:2: column timeout")
	require.Contains(t, refusals(t, openText(t, "sep=;\rorder_no;\"a\rb\r\nc\";timeout\r\rA-1;\"a\rb\";soon\r")), "orders.csv:7:3: column timeout")
	require.Contains(t, refusals(t, openText(t, "order_no;note;timeout\rA-1;\"a\rb\";30\rA-2;\"x\"y;30\r")), "orders.csv:4:")
	s, _ := bodies(t, openText(t, "order_no;note;timeout\rA-1;\"a\rb\";30\r\rA-2;\"\r\";30\r;\" \r \"\r\r\r"))
	require.Equal(t, 4, s.Blank)
	_, got := bodies(t, openText(t, strings.Replace(content, "soon", "30", 1)))
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"item":"a\rb"}`, `{"order_no":"A-2","timeout":30,"item":"x"}`}, got)
	_, got = bodies(t, openText(t, oneOrder+"\r"+strings.Replace(oneOrder, "A-1", "A-2", 1)+"\r"))
	require.Len(t, got, 2)
}

// TestTrailingEmptyColumns: Excel writes the columns that once had something.
func TestTrailingEmptyColumns(t *testing.T) {
	for _, content := range []string{
		"order_no;timeout;;\nA-1;30;;\n", "order_no;timeout; ;\nA-1;30\n", "order_no;timeout\nA-1;30;;;\n",
	} {
		_, got := bodies(t, openText(t, content))
		require.Equal(t, []string{`{"order_no":"A-1","timeout":30}`}, got)
	}
	require.Contains(t, refusals(t, openText(t, "order_no;timeout;;\nA-1;30;;x\n")), "orders.csv:2: the row has 4 cells, the header 2")
	require.Contains(t, refusals(t, openText(t, "order_no;;timeout\n")), "orders.csv:1:2: the column has no name")
	require.Contains(t, refusals(t, openText(t, ";;\n")), "orders.csv:1: the file is empty")
}

func TestWhatToDo(t *testing.T) {
	for content, want := range map[string]string{
		"[\n" + oneOrder + "]":                          "orders.csv:1: the file is a JSON array; NDJSON has one order a line, and jq makes it: jq -c '.[]' FILE | orderpost enqueue -",
		" [{\"order_no\":1}]":                           "jq -c '.[]'",
		"[]":                                            "the file is a JSON array",
		"{\n\"order_no\":\"A\"\n}\n":                    "the file is JSON whose objects go over several lines; NDJSON has one order a line, and jq makes it: jq -c . FILE",
		"Order_No,timeout\nA,30\n":                      "orders.csv:1: there is no column order_no among Order_No, timeout; --rename Order_No=order_no takes that one, or --order-no-template",
		"order no,timeout\nA,30\n":                      "--rename 'order no=order_no' takes that one",
		"Bestellung,timeout\nA,30\n":                    "--rename COLUMN=order_no says which one it is",
		"order_no,item\nA,x\n":                          "orders.csv:1: there is no column timeout among order_no, item; --rename COLUMN=timeout says which one it is, or --set timeout=30 gives every order the same one",
		"order_no,Timeout\nA,30\n":                      "--rename Timeout=timeout takes that one",
		"order_no," + strings.Repeat("a.", 100) + "b\n": "nests 101 objects, at most 64 are possible",
	} {
		require.Contains(t, refusals(t, openText(t, content)), want)
	}
	_, got := bodies(t, openText(t, "[order_no],timeout\nA,30\n", mapped(Mapping{Rename: map[string]string{"[order_no]": "order_no"}})))
	require.Len(t, got, 1, "a bracket alone is no JSON")
}

// TestHalfCharacters: half a character of UTF-16 is its cell's mistake, and
// not a question mark.
func TestHalfCharacters(t *testing.T) {
	for _, e := range []struct {
		order unicode.Endianness
		high  string
		low   string
	}{{unicode.LittleEndian, "\x3d\xd8", "\x00\xde"}, {unicode.BigEndian, "\xd8\x3d", "\xde\x00"}} {
		file := func(item string) string {
			text := encoded(t, unicode.UTF16(e.order, unicode.UseBOM), "order_no,timeout,item\nA-1,30,ITEM\nA-2,30,ok\n")
			return strings.Replace(text, encoded(t, unicode.UTF16(e.order, unicode.IgnoreBOM), "ITEM"), item, 1)
		}
		_, got := bodies(t, openText(t, file(e.high+e.low)))
		require.Equal(t, `{"order_no":"A-1","timeout":30,"item":"😀"}`, got[0])
		for _, half := range []string{e.high, e.low, e.low + e.high, e.high + e.high} {
			require.Contains(t, refusals(t, openText(t, file(half))), "orders.csv:2:3: column item: ")
			require.Contains(t, refusals(t, openText(t, file(half))), "has half a character")
		}
		cut := file(e.high + e.low)
		require.Contains(t, refusals(t, openText(t, cut[:len(cut)-3])), "orders.csv:3:3: column item: ")
	}
}

// TestWideFile: each column is placed at a cost that does not grow with the
// others. It ran for minutes.
func TestWideFile(t *testing.T) {
	const columns = 50_000
	var b strings.Builder
	b.WriteString("order_no,timeout")
	for i := range columns {
		fmt.Fprintf(&b, ",c%d", i)
	}
	b.WriteString("\nA-1,30" + strings.Repeat(",x", columns) + "\n")
	f := openText(t, b.String())
	_, got := bodies(t, f)
	require.Len(t, got, 1)
	root := f.head.layout.root
	require.Len(t, root.index, columns+2)
	require.Len(t, root.members, columns+2)
}
