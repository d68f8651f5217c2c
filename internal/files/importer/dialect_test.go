package importer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

const oneOrder = `{"order_no":"A-1","timeout":30,"item":"Käse, 5 €"}`

func encoded(t *testing.T, e encoding.Encoding, text string) string {
	t.Helper()
	out, err := e.NewEncoder().String(text)
	require.NoError(t, err)
	return out
}

// TestDialects: however a spreadsheet writes the file, the order is the same.
func TestDialects(t *testing.T) {
	comma := joined("order_no,timeout,item", `A-1,30,"Käse, 5 €"`)
	semicolon := "order_no;timeout;item\r\nA-1;30;Käse, 5 €\r\n"
	var zipped, zstandard bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	_, err := gz.Write([]byte(comma))
	require.NoError(t, err)
	require.NoError(t, gz.Close())
	zs, err := zstd.NewWriter(&zstandard)
	require.NoError(t, err)
	_, err = zs.Write([]byte(comma))
	require.NoError(t, err)
	require.NoError(t, zs.Close())

	for _, c := range []struct {
		name, content, encoding, delimiter string
		blank                              int
	}{
		{name: "plain", content: comma, encoding: UTF8, delimiter: ","},
		{name: "no line end", content: strings.TrimSuffix(comma, "\n"), encoding: UTF8, delimiter: ","},
		{name: "byte order mark", content: "\ufeff" + comma, encoding: UTF8, delimiter: ","},
		{name: "semicolon, CRLF", content: semicolon, encoding: UTF8, delimiter: ";"},
		{name: "tab", content: strings.ReplaceAll(semicolon, ";", "\t"), encoding: UTF8, delimiter: "\t"},
		{name: "bar", content: strings.ReplaceAll(semicolon, ";", "|"), encoding: UTF8, delimiter: "|"},
		{name: "sep line", content: "sep=;\r\n" + semicolon, encoding: UTF8, delimiter: ";"},
		{name: "quoted sep line", content: "\"sep=;\"\n" + semicolon, encoding: UTF8, delimiter: ";"},
		{name: "mark and sep line", content: "\ufeffSEP=;\n" + semicolon, encoding: UTF8, delimiter: ";"},
		{name: "quoted header", content: "\"order_no\";\"timeout\";\"item\"\nA-1;30;\"Käse, 5 €\"\n", encoding: UTF8, delimiter: ";"},
		{name: "delimiter inside a quoted name", content: "\"order_no\";timeout;\"item\"\nA-1;30;\"Käse, 5 €\"\n", encoding: UTF8, delimiter: ";"},
		{name: "blank rows", content: "\n\norder_no;timeout;item\n\n;;\n  ; ;\u00a0\nA-1;30;Käse, 5 €\n;;\n", encoding: UTF8, delimiter: ";", blank: 4},
		{name: "blank lines at the end", content: semicolon + "\r\n\n\r\n \r\n\n", encoding: UTF8, delimiter: ";", blank: 5},
		{name: "blank lines at the end, CR", content: "sep=;\r" + strings.ReplaceAll(semicolon, "\r\n", "\r") + "\r\r", encoding: UTF8, delimiter: ";", blank: 2},
		{name: "spaces before the header", content: "  \r\n \r\n" + semicolon, encoding: UTF8, delimiter: ";"},
		{name: "empty cells before the header", content: ";;\n" + semicolon, encoding: UTF8, delimiter: ";"},
		{name: "utf-16le with mark", content: encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), semicolon), encoding: UTF16LE, delimiter: ";"},
		{name: "utf-16be with mark", content: encoded(t, unicode.UTF16(unicode.BigEndian, unicode.UseBOM), semicolon), encoding: UTF16BE, delimiter: ";"},
		{name: "utf-16le", content: encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), semicolon), encoding: UTF16LE, delimiter: ";"},
		{name: "utf-16be", content: encoded(t, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), semicolon), encoding: UTF16BE, delimiter: ";"},
		{name: "gzip", content: zipped.String(), encoding: UTF8, delimiter: ","},
		{name: "zstd", content: zstandard.String(), encoding: UTF8, delimiter: ","},
		{name: "ndjson", content: "\n" + oneOrder + "\r\n\n", encoding: UTF8, blank: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Open(&pieces{bytes.NewReader([]byte(c.content)), 7}, Options{File: "orders.csv"})
			require.NoError(t, err)
			s, got := bodies(t, f)
			require.Equal(t, []string{oneOrder}, got)
			require.Equal(t, 1, s.Rows)
			require.Equal(t, c.encoding, s.Encoding)
			require.Equal(t, c.delimiter, s.Delimiter)
			require.Equal(t, c.blank, s.Blank)
		})
	}
}

func TestEncodingGiven(t *testing.T) {
	const item = "order_no,timeout,item\nA-1,30,%s\n"
	for name, c := range map[string]struct {
		of   encoding.Encoding
		text string
	}{
		Windows1252: {charmap.Windows1252, "Käse 5 €"}, "windows-1250": {charmap.Windows1250, "Łódź"}, "windows-1251": {charmap.Windows1251, "Москва"},
		"macintosh": {charmap.Macintosh, "Müller"}, "shift_jis": {japanese.ShiftJIS, "東京 カタカナ ｱｲｳ"},
	} {
		narrow := encoded(t, c.of, fmt.Sprintf(item, c.text))
		s, got := bodies(t, openText(t, narrow, func(o *Options) { o.Encoding = name }))
		require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"item":"` + c.text + `"}`}, got)
		require.Equal(t, name, s.Encoding)
		for _, change := range []func(*Options){func(*Options) {}, skipInvalid, func(o *Options) { o.Encoding = UTF8 }} { // nobody guesses
			got := refusals(t, openText(t, narrow, change))
			require.Contains(t, got, "orders.csv:2:3: column item: ")
			require.Contains(t, got, " is not UTF-8 (byte 0x")
			require.Contains(t, got, fmt.Sprintf("%q in %s", c.text, name))
			require.Contains(t, got, "; save the file as UTF-8, or name its encoding (--encoding)")
			if name == Windows1252 {
				break // the next are the same
			}
		}
	}
	// One cut character is one cell's mistake, wherever it stands.
	for _, content := range []string{
		"order_no,timeout,item\nA-1,30,M\xc3ller\nA-2,30,Müller\n", "order_no,timeout,item\nA-2,30,Müller\nA-1,30,M\xfcller\n", "order_no,timeout,Größe\nA-1,30,\xe4\n", "order_no,timeout,item\nA-1,30,\xe4\nA-2,30,東京\n",
	} {
		f := openText(t, content, skipInvalid)
		s, err := f.Check(t.Context())
		require.NoError(t, err)
		require.Equal(t, []InvalidKind{{Code: CodeEncoding, Rows: 1, Line: s.Bad[0].Line}}, s.InvalidKinds)
		require.Contains(t, s.Bad[0].Error(), " is not UTF-8 (byte 0x")
		require.Equal(t, 3, s.Bad[0].Column)
	}
	for _, content := range []string{"order_no,timeout,item\nA-1,30,\x81\n", "order_no,timeout,\x81\n", "order_no,timeout\nA-1,\x81\n", "\n{\"order_no\":\"\x81\"}\n"} {
		require.Contains(t, refusals(t, openText(t, content, func(o *Options) { o.Encoding = Windows1252 })), " has a byte that is no character in windows-1252; save the file as UTF-8, or name its encoding (--encoding)")
		require.Contains(t, refusals(t, openText(t, content)), "UTF-8")
	}
}

func TestDelimiterGiven(t *testing.T) {
	_, got := bodies(t, openText(t, "order_no~timeout~a;b;c\nA-1~30~x\n", func(o *Options) { o.Delimiter = "~" }))
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"a;b;c":"x"}`}, got)
	for name, want := range map[string]rune{"tab": '\t', `\t`: '\t', ";": ';', "¦": '¦'} {
		got, err := parseDelimiter(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"", ";;", `"`, "\n", "comma"} {
		_, err := parseDelimiter(name)
		require.Error(t, err, "%q", name)
	}
}

// TestCellsOfManyLines: lines are counted through quoted line ends.
func TestCellsOfManyLines(t *testing.T) {
	f := openText(t, "order_no,note,timeout\nA-1,\"two\nlines\",30\n\nA-2,\"a \"\"quote\"\"\r\nand more\",soon\n")
	require.Contains(t, refusals(t, f), `orders.csv:6:3: column timeout: "soon" is not a whole number`)
}

// TestFirstLineEndDecides: CR alone ends lines if the first line ends in it. Inside quotes
// it belongs to the cell, as other line ends do.
func TestFirstLineEndDecides(t *testing.T) {
	const first, second = `{"order_no":"A-1","timeout":30,"note":"x"}`, `{"order_no":"A-2","timeout":30,"note":"y"}`
	for content, want := range map[string][]string{
		"order_no,timeout,note\rA-1,30,\"a\rb\"\rA-2,30,y\r":                    {`{"order_no":"A-1","timeout":30,"note":"a\rb"}`, second},
		"order_no,timeout,note\rA-1,30,\"a\nb\"\rA-2,30,y":                      {`{"order_no":"A-1","timeout":30,"note":"a\nb"}`, second},
		"order_no,timeout,note\rA-1,30,\"\"\"\r\nb\"\rA-2,30,y":                 {`{"order_no":"A-1","timeout":30,"note":"\"\r\nb"}`, second},
		"order_no,timeout,\"the\nnote\"\rA-1,30,x\r":                            {`{"order_no":"A-1","timeout":30,"the\nnote":"x"}`},
		"order_no,timeout,\"the\rnote\"\nA-1,30,x\n":                            {`{"order_no":"A-1","timeout":30,"the\rnote":"x"}`},
		"order_no,timeout,note\rA-1,30,x\nA-2,30,y\n":                           {first, second},
		"order_no,timeout,note\rA-1,30,x\r\nA-2,30,y\r\n":                       {first, second},
		"sep=;\rorder_no;timeout;note\rA-1;30;x\rA-2;30;y\r":                    {first, second},
		strings.Replace(first, "x", `5\"`, 1) + "\r" + second + "\r":            {strings.Replace(first, "x", `5\"`, 1), second},
		"order_no,timeout,note\nA-1,30,\"a\rb\"\nA-2,30,c\rd\n":                 {`{"order_no":"A-1","timeout":30,"note":"a\rb"}`, `{"order_no":"A-2","timeout":30,"note":"c\rd"}`},
		"order_no,timeout,note\r" + strings.Repeat("\r", 70_000) + "A-1,30,x\n": {first},
	} {
		_, got := bodies(t, openText(t, content))
		require.Equal(t, want, got, "%.200q", content)
	}
	require.Contains(t, refusals(t, openText(t, "order_no,timeout\rA-1,30\r\nA-2,30\r\nA-3,soon\r\n")), "orders.csv:4:2: column timeout", "CR LF ends one line")
}

func TestWhatIsNoTable(t *testing.T) {
	for content, want := range map[string]string{
		"":                            "orders.csv:1: the file is empty",
		"\n\n":                        "orders.csv:1: the file is empty",
		"  \n;;\n":                    "orders.csv:1: the file is empty",
		"  \n\na,order_no:int\n":      "orders.csv:3:2: order_no is always text",
		"PK\x03\x04rest":              "the workbook (or zip archive) is damaged",
		"\xd0\xcf\x11\xe0rest":        "save it as a workbook (.xlsx) without a password",
		"\x1f\x8bno":                  "not readable as gzip",
		"order_no,,timeout\n":         "orders.csv:1:2: the column has no name",
		"order_no,timeout,order_no\n": `orders.csv:1:3: the name "order_no" is taken by column 1`,
		"order_no, timeout\n":         `orders.csv:1:2: the column's name " timeout" is padded`,
		"order_no,timestamp\n":        "orders.csv:1:2: a timestamp column is refused",
		"a,b\n":                       "orders.csv:1: there is no column order_no among a, b",
		"order_no:int\n":              "order_no is always text",
		"order_no,qty:integer\n":      `"integer" is none of the types`,
		"order_no,a,a.b\n":            "orders.csv:1:3: the field a is there twice",
		"order_no,a.b,a\n":            "orders.csv:1:3: the field a is there twice",
		"order_no,a..b\n":             "has an empty part",
		"sep=;\norder_no;timestamp\n": "orders.csv:2:2: a timestamp column",
		"order_no,timeout\nA-1,30\nA-2,\"3\"0\nB":    "orders.csv:3:",
		"order_no,timeout\nA-1,30\nA-2,\"30\nA-3\n":  "the row begins in line 3",
		"{\"order_no\":\"A-1\"}\n":                   "orders.csv:1: timeout: absent but required",
		"{\"order_no\":\"A-1\",\"timeout\":30}\n{\n": "orders.csv:2: not valid JSON",
	} {
		require.Contains(t, refusals(t, openText(t, content)), want, "%q", content)
	}
}

// TestLongNames: a first line that is no header does not make a message of its length.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 900_000)
	for content, want := range map[string]string{
		long + "\n":                                     "there is no column order_no among " + long[:80] + "…; --rename COLUMN=order_no",
		" " + long + "\n":                               "is padded with spaces",
		long + "," + long + "\n":                        "is taken by column 1",
		long + "," + long + ":int\n":                    "… is there twice",
		"order_no,a.." + long + "\n":                    "has an empty part",
		"order_no,timeout," + long + "\xff\n":           "is not UTF-8",
		"order_no,timeout," + long + ":integer\n":       "is none of the types",
		"order_no,timeout,n:" + long + "\n":             "is none of the types",
		"order_no,timeout," + long + ":int\nA-1,30,x\n": `…: "x" is not a whole number`,
	} {
		got := refusals(t, openText(t, content, func(o *Options) { o.Encoding = UTF8 }))
		require.Contains(t, got, want, "%.40q", content)
		require.Less(t, len(got), 600, "%.40q", content)
	}
	names := make([]string, 300)
	for i := range names {
		names[i] = strings.Repeat("n", 30)
	}
	require.Equal(t, strings.Repeat(names[0]+", ", 12)+names[0]+" and 287 more", listed(names))
	require.Equal(t, "a, b", listed([]string{"a", "b"}))
}

// TestQuoteNeverClosed does not read the rest of a large file into memory.
func TestQuoteNeverClosed(t *testing.T) {
	content := "order_no,timeout\nA-1,30\nA-2,\"30\n" + strings.Repeat("A-3,30\n", 1<<20)
	require.Contains(t, refusals(t, openText(t, content)), "orders.csv:3: the row is longer than 2097152 bytes; look for a quote")
}

// TestDamagedCompression: the error says what is wrong and what to do.
func TestDamagedCompression(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(numbered(1, 3, "1")))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	whole := b.String()
	wrong := []byte(whole)
	wrong[len(wrong)-6] ^= 1
	for content, want := range map[string]string{
		whole + "trailing bytes": "orders.csv: other bytes stand behind the gzip data",
		whole[:30]:               "orders.csv: the gzip data ends in the middle",
		string(wrong):            "orders.csv: the gzip data is damaged",
	} {
		require.Contains(t, refusals(t, openText(t, content)), want)
	}
	_, got := bodies(t, openText(t, whole+whole[:0]))
	require.Len(t, got, 3)
}
