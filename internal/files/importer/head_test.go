package importer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func readHead(t *testing.T, content string) *Head {
	t.Helper()
	h, err := ReadHead(strings.NewReader(content), Options{File: "orders.csv"}, 2)
	require.NoError(t, err)
	return h
}

// TestProposals: what is proposed can be imported, and nothing is guessed beyond the
// obligatory fields.
func TestProposals(t *testing.T) {
	for name, c := range map[string]struct {
		header, row string
		want        Mapping
	}{
		"complete":   {"order_no,timeout,qty", "A-1,30,1", Mapping{}},
		"typed":      {"order_no,timeout:int,qty:int", "A-1,30,1", Mapping{}},
		"other name": {"Order No.,qty", "A-1,1", Mapping{Rename: map[string]string{"Order No.": "order_no"}, Set: map[string]string{"timeout": "30"}}},
		"German":     {"Auftragsnummer;Timeout (sec);Art.Nr.", "A-1;30;7", Mapping{Rename: map[string]string{"Auftragsnummer": "order_no", "Timeout (sec)": "timeout", "Art.Nr.": "Art_Nr"}}},
		"colon":      {"order_no,timeout,Preis: netto", "A-1,30,7", Mapping{Rename: map[string]string{"Preis: netto": "Preis: netto"}}},
		"two likely": {"Order ID,Order Number,timeout", "1,A-1,30", Mapping{Rename: map[string]string{"Order Number": "order_no"}}},
	} {
		t.Run(name, func(t *testing.T) {
			content := joined(c.header, c.row)
			h := readHead(t, content)
			got := h.Propose()
			require.Equal(t, c.want, got)
			var fields []string // a form that shows the mapping sends the same one
			var kinds []Type
			for i := range h.Columns {
				field, kind := h.Columns[i].Arranged(got)
				fields, kinds = append(fields, field), append(kinds, kind)
			}
			require.Equal(t, got, h.Arrange(got, fields, kinds))
			require.Equal(t, got, h.Arrange(got, fields, make([]Type, len(kinds))), "types that nobody chose")
			require.NoError(t, h.Try(got))
			s, err := openText(t, content, func(o *Options) { o.Mapping = got }).Check(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, s.Rows)
		})
	}
	h := readHead(t, joined("a;b", "1;2", "3;4", "5;6"))
	require.Equal(t, []Column{{Name: "a", Field: "a", Type: TypeString, Samples: []string{"1", "3"}}, {Name: "b", Field: "b", Type: TypeString, Samples: []string{"2", "4"}}}, h.Columns)
	require.Equal(t, ";", h.Delimiter)
	missing, ok := errors.AsType[*MissingField](h.Try(h.Propose()))
	require.True(t, ok)
	require.Equal(t, order.FieldOrderNo, missing.Field)
	require.ErrorContains(t, h.Try(Mapping{Empty: "maybe"}), "is none of omit, null, string")
	require.Equal(t, []string{`{"order_no":"A-1","timeout":3}`}, readHead(t, `{"order_no":"A-1","timeout":3}`).Lines)
	_, err := ReadHead(strings.NewReader(""), Options{File: "orders.csv"}, 2)
	require.ErrorContains(t, err, "the file is empty")
}

// TestWrittenMappings: what Write writes reads as the same mapping, and so is the same
// batch.
func TestWrittenMappings(t *testing.T) {
	m := Mapping{
		Types:  map[string]Type{"qty": TypeInt, "a b": TypeJSON},
		Rename: map[string]string{"Preis: netto": "Preis: netto", "#": "number", "~": "null", "Größe": "size", " x'\"": "y", "- a": "b\nc"},
		Set:    map[string]string{"timeout": "30", "zip": "0012", "flag:bool": "true", "e": "1e3", "none": "null", "empty": "", "tilde": "~", "line": "a\nb", "q": `"'\`},
		Empty:  EmptyOmit, OrderNoTemplate: "{batch}-{row}", Accept: map[string][]Code{"order_no": {CodeExcel, CodeDate}},
	}
	var b bytes.Buffer
	require.NoError(t, m.Write(&b, "orders.csv\nsecond line"))
	require.True(t, strings.HasPrefix(b.String(), "# orders.csv\n# second line\n"), b.String())
	got, err := ReadMapping("mapping.yaml", &b)
	require.NoError(t, err)
	require.Equal(t, m, got)
	require.NoError(t, (Mapping{}).Write(&b, "none"))
	got, err = ReadMapping("mapping.yaml", &b)
	require.NoError(t, err)
	require.True(t, got.IsZero())
}

// TestKindsOfBadRows: a check that goes on counts every bad row by its kind, also those
// that only the whole file shows, and quotes the cells.
func TestKindsOfBadRows(t *testing.T) {
	f := openText(t, joined("order_no,timeout,qty:int", "A-1,30,1", "A-2,30,two", "A-3,30", "A-1,30,1", "A-4,30,x", "1.2E+12,30,1"),
		func(o *Options) { o.SkipInvalid, o.MaxErrors = true, 2 })
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, s.Invalid)
	require.Equal(t, []InvalidKind{{CodeType, 2, 3}, {CodeCells, 1, 4}, {CodeDuplicate, 1, 5}, {CodeExcel, 1, 7}}, s.InvalidKinds)
	require.Len(t, s.Bad, 2)
	require.Equal(t, "two", s.Bad[0].Value)

	s, err = openText(t, joined("order_no,timeout", "A-1,30", `A-2,"30`)).Check(t.Context())
	require.Error(t, err)
	require.Equal(t, []InvalidKind{{CodeQuote, 1, 3}}, s.InvalidKinds)
}

// TestPlainMessages: a page shows no flags.
func TestPlainMessages(t *testing.T) {
	_, err := openText(t, joined("Order No,timeout:int,qty:int", "31.12.2026,30,1", "A-2,30,"), func(o *Options) { o.Mapping.Rename = map[string]string{"Order No": "order_no"} }).Check(t.Context())
	bad, ok := errors.AsType[*BadRows](err)
	require.True(t, ok)
	require.Contains(t, bad.Rows[0].Message(), "--accept order_no=excel_date")
	require.NotContains(t, bad.Rows[0].Plain(), "--")
	require.Equal(t, []any{"order_no", CodeDate, true}, []any{bad.Rows[0].Field, bad.Rows[0].Code, bad.Rows[0].IsQuestion()})
	require.Contains(t, bad.Rows[1].Message(), "--empty omit")
	require.Equal(t, `column qty:int: "" is not a whole number such as 30`, bad.Rows[1].Plain())
}

func TestFormulas(t *testing.T) {
	f := openText(t, joined("order_no,timeout,note", "A-1,30,=1+1", "A-2,30,+49 (0)30 123", "A-3,30,-3", "A-4,30,@SUM(A1)", "A-5,30,-2+3+cmd|' /C calc'!D2", "A-6,30,- see (1)", "A-7,30,="))
	s, sent := bodies(t, f)
	require.Equal(t, 3, s.Warnings)
	require.Equal(t, WarnFormula, s.WarningKinds[0].Code)
	require.Equal(t, 3, s.WarningKinds[0].Rows)
	require.Equal(t, []string{"note"}, s.WarningKinds[0].Fields)
	require.Contains(t, sent[0], `"note":"=1+1"`, "it is sent as it is")
	what, advice := s.WarningKinds[0].Meaning(s.Format, false)
	require.Contains(t, what+advice, "formulas")
}

// TestUnendedFiles: a file that was cut off within its last cell is not seen by its
// rows.
func TestUnendedFiles(t *testing.T) {
	for content, want := range map[string]int{
		"order_no,timeout\nA-1,30\nA-2,3":          3,
		"order_no,timeout\nA-1,30\nA-2,30\n":       0,
		"order_no,timeout\rA-1,30\r":               0,
		`{"order_no":"A-1","timeout":3}`:           1,
		"{\"order_no\":\"A-1\",\"timeout\":3}\r\n": 0,
	} {
		s, err := openText(t, content).Check(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, s.Unended, content)
	}
}

// TestForeignFiles: what is no text says what it is and what to do.
func TestForeignFiles(t *testing.T) {
	for content, want := range map[string]string{
		"PK\x03\x04\x14\x00\x06\x00":                         "the workbook (or zip archive) is damaged: its zip archive cannot be read, or is cut off",
		"\xd0\xcf\x11\xe0\xa1\xb1":                           "an old Excel file (.xls), or a workbook with a password",
		"%PDF-1.7\n%\xe2\xe3":                                "this is a PDF",
		"\ufeff\r\n<!DOCTYPE html><html>":                    "a web page, not text; perhaps a download that was a login page",
		"<?xml version=\"1.0\"?>":                            "this is XML",
		"BZh91AY":                                            "bunzip2",
		"SQLite format 3\x00":                                "an SQLite database",
		"\x01\x02\x03\x04\x05\x06\x07\x0e\x0f\x10\x11abcdef": "begins with bytes such as 0x01",
	} {
		_, err := openText(t, content).Check(context.Background())
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, NotText("a", []byte("o\x00r\x00d\x00e\x00r\x00_\x00n\x00o\x00,\x00t\x00")))
	require.NoError(t, NotText("a", []byte("<customer>,order_no,timeout")))
}
