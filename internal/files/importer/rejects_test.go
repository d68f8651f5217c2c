package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func skipInvalid(o *Options) { o.SkipInvalid = true }

// TestRejectsComeBack: the rejects of a bad file, corrected, import as they
// are; and uncorrected, they are refused for the same reasons.
func TestRejectsComeBack(t *testing.T) {
	content := "\ufeff" + strings.ReplaceAll(joined("order_no;timeout;note", "A-1;30;fine", "A-2;soon;=1+1", " A-3;30;x", "A-1;30;again", "A-5;30", "A-6;30;y;z"), "\n", "\r\n")
	f := openText(t, content, skipInvalid)
	s, got := bodies(t, f)
	require.Len(t, got, 1)
	require.Equal(t, 5, s.Invalid)
	require.Len(t, s.Bad, 5)

	var out strings.Builder
	require.NoError(t, f.WriteRejects(t.Context(), &out))
	require.True(t, strings.HasPrefix(out.String(), "\ufefforder_no;timeout;note;_row;_column;_code;_message\r\n"), out.String())
	require.Contains(t, out.String(), "A-2;soon;=1+1;3;2;wrong_type;")
	require.Contains(t, out.String(), "A-1;30;again;5;;duplicate_order_no;")
	require.Contains(t, out.String(), "\" A-3\";30;x;4;1;padded;")
	require.Contains(t, out.String(), "A-5;30;#N/A;6;;cell_count;")
	require.Contains(t, out.String(), "A-6;30;y;7;;cell_count;")
	require.Contains(t, out.String(), ";z\r\n", "nothing of the row is lost")

	again := openText(t, out.String(), skipInvalid)
	s, got = bodies(t, again)
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"note":"again"}`}, got, "alone it is no duplicate; the others are as bad as before")
	require.Equal(t, 4, s.Invalid)

	corrected := strings.NewReplacer("#N/A", "", "soon", "60", "\" A-3\";", "A-3;", "A-1;30;again", "A-4;30;again", ";z\r\n", "\r\n").Replace(out.String())
	_, got = bodies(t, openText(t, corrected))
	require.Equal(t, []string{
		`{"order_no":"A-2","timeout":60,"note":"=1+1"}`,
		`{"order_no":"A-3","timeout":30,"note":"x"}`,
		`{"order_no":"A-4","timeout":30,"note":"again"}`,
		`{"order_no":"A-5","timeout":30,"note":""}`,
		`{"order_no":"A-6","timeout":30,"note":"y"}`,
	}, got)
}

func TestRejectsOfNDJSON(t *testing.T) {
	f := openText(t, joined(`{"order_no":"A-1","timeout":30}`, `{"order_no":"A-2"}`, `nonsense`, `{"order_no":"A-1","timeout":31}`), skipInvalid)
	s, got := bodies(t, f)
	require.Len(t, got, 1)
	require.Equal(t, 3, s.Invalid)
	var out strings.Builder
	require.NoError(t, f.WriteRejects(t.Context(), &out))
	require.Equal(t, joined(`{"order_no":"A-2"}`, `nonsense`, `{"order_no":"A-1","timeout":31}`), out.String())
	require.Equal(t, "x.ndjson.rejects.ndjson", f.RejectsName("x.ndjson"))
}

// TestBrokenQuoteIsNotSkipped: behind it nobody can tell where rows begin.
func TestBrokenQuoteIsNotSkipped(t *testing.T) {
	f := openText(t, joined("order_no,timeout", "A-1,30", `A-2,"30`, "A-3,30"), skipInvalid)
	require.Contains(t, refusals(t, f), "it cannot be skipped")
}

func TestNeutral(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "x": "x", "-5": "-5", "+1.000,50": "+1.000,50", "-0.5": "-0.5", "1=1": "1=1",
		"=1+1": "'=1+1", "@SUM(A1)": "'@SUM(A1)", "-1+1": "'-1+1", "+cmd|x": "'+cmd|x", "\t=1": "'\t'=1", "\r=1": "'\r'=1", "-": "'-",
		"x;=1+1": "x;'=1+1", "x\t=1": "x\t'=1", "x,@A": "x,'@A", "x|+a": "x|'+a", "x\n-a": "x\n'-a", "x\r\n=1": "x\r\n'=1", `x;"=1"`: `x;"'=1"`, `x;""=1`: `x;""'=1`, "x;＝1": "x;'＝1",
		"x;'=1": "x;''=1", ";=1;=2": ";'=1;'=2", "=1;=2": "'=1;'=2", "1;-2;+3,5": "1;-2;+3,5", "a; b=c": "a; b=c", "x;": "x;", `;"`: `;"`, `{"a":[-1,"b"]}`: `{"a":[-1,"b"]}`, "a,b;c|d": "a,b;c|d",
		"-1;=2": "'-1;'=2", "'": "'", "x;'": "x;'", "x;''=": "x;'''=",
		"＝1+1": "'＝1+1", "＋1": "'＋1", "－A1": "'－A1", "＠SUM(A1)": "'＠SUM(A1)", "'＝1": "''＝1", "1＝1": "1＝1",
	} {
		require.Equal(t, want, EscapeFormula(in), "%q", in)
		require.Equal(t, in, unescapeFormula(want), "%q", want)
	}
}

// FuzzNeutral: a formula is undone to what it was, and no reader finds one at the start of a field,
// whichever separator it splits at.
func FuzzNeutral(f *testing.F) {
	for _, seed := range []string{"=1", "x;=1", "x;'=1", `x;"=1`, "-1;-a", "a\n=b,=c", "+1,5;=x", "'';'='"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		safe := EscapeFormula(cell)
		require.Equal(t, cell, unescapeFormula(safe))
		for i, field := range strings.FieldsFunc("."+safe, func(r rune) bool { return strings.ContainsRune(fieldEnds, r) }) {
			if field = strings.TrimLeft(field, `"`); i > 0 && field != "" {
				require.NotContains(t, "=@", field[:1], "%q", safe)
			}
		}
	})
}

// TestManyRows: chunks keep the file's order, and every row is seen once.
func TestManyRows(t *testing.T) {
	var b strings.Builder
	b.WriteString("order_no,timeout\n")
	const rows = 10*chunkRows + 17
	for i := range rows {
		fmt.Fprintf(&b, "A-%d,30\n", i)
	}
	f := openText(t, b.String())
	next := 0
	_, err := f.scan(t.Context(), func(rows []Row) error {
		for _, row := range rows {
			require.Equal(t, fmt.Sprintf("A-%d", next), row.OrderNo)
			next++
			require.Equal(t, next, row.Number)
			require.Equal(t, next+1, row.Line)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, rows, next)
}
