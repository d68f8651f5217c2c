package deadletter

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func TestFlat(t *testing.T) {
	fields, err := flat([]byte(`{"order_no":"A","timeout":30,"timestamp":17,"text":"=1"}`))
	require.NoError(t, err)
	require.Equal(t, []field{{"order_no", "A"}, {"timeout", "30"}, {"text", "=1"}}, fields)
	for _, body := range []string{`{"order_no":"A","qty":1}`, `{"order_no":"A","lines":[]}`, `{"order_no":"A","timeout":"30"}`,
		`{"order_no":"A","x":null}`, `[]`, `not json`,
		`{"order_no":"A","x":"1","x":"2"}`, `{"order_no":"A","x":"\ud800"}`, `{"order_no":"A","x":"a\rb"}`, `{"order_no":"A","a.b":"1"}`,
		`{"order_no":"A","qty:int":"1"}`, `{"order_no":"A","_row":"1"}`, `{"order_no":"A"," x":"1"}`, `{"order_no":"A","":"1"}`, `{"order_no":"A","a;b":"1"}`,
		`{"\ufefforder_no":"A"}`, `{"order_no":"A","x":{"timestamp":1}}`, `{"order_no":"A","timeout":3e1}`, `{"order_no":`} {
		_, err := flat([]byte(body))
		require.Error(t, err, body)
	}
}

// TestCSVLosesNoField: an order with other fields than the header is left out, and said
// so.
func TestCSVLosesNoField(t *testing.T) {
	var columns Columns
	require.NoError(t, columns.Add([]byte(`{"order_no":"A-1","timeout":30}`)))
	var out bytes.Buffer
	to := CSV(&out, &columns)
	for _, body := range []string{`{"order_no":"A-2","timeout":30,"note":"x"}`, `{"order_no":"A-3"}`} {
		why, err := to.Order(&settle.Letter{}, []byte(body))
		require.NoError(t, err)
		require.ErrorAs(t, why, new(NotCSV), body)
	}
	require.NoError(t, to.End())
	require.Equal(t, "order_no,timeout\n", out.String())
}

// TestSheet: no cell of a sheet is a formula, and an import gets the orders as they
// were.
func TestSheet(t *testing.T) {
	bodies := []string{`{"order_no":"=A-1","timeout":30,"note":"=1+1"}`, `{"order_no":"-A-2","timeout":30,"note":"'s quoted"}`, `{"order_no":"A-3","timeout":30,"note":""}`}
	var columns Columns
	for _, body := range bodies {
		require.NoError(t, columns.Add([]byte(body)))
	}
	require.Equal(t, 3, columns.Fit())
	var out bytes.Buffer
	to := Sheet(&out, &columns, importer.EscapeFormula)
	for _, body := range bodies {
		why, err := to.Order(&settle.Letter{Outcome: order.OutcomeRejected, Reason: "@bad\r"}, []byte(body))
		require.NoError(t, err)
		require.NoError(t, why)
	}
	require.NoError(t, to.End())
	require.Equal(t, "order_no,timeout,note,_outcome,_reason\n'=A-1,30,'=1+1,rejected,'@bad \n'-A-2,30,'s quoted,rejected,'@bad \nA-3,30,,rejected,'@bad \n", out.String())

	f, err := importer.Open(strings.NewReader(out.String()), importer.Options{File: "sheet.csv"})
	require.NoError(t, err)
	_, err = f.Check(t.Context())
	require.NoError(t, err)
	rows, err := f.Preview(t.Context(), 3)
	require.NoError(t, err)
	for i, row := range rows {
		require.Equal(t, bodies[i], string(row.Order.Canonical()))
	}
}

// TestLookAndExport: the survey counts what an export then writes.
func TestLookAndExport(t *testing.T) {
	r := newRig(t)
	r.letters("R", 3, order.Rejected, "bad currency")
	body := func(no, text string) {
		require.NoError(t, r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: no, Body: []byte(text)}})[0].Err)
		r.fail(1, order.Report{End: order.EndInvalid, Reason: "as it came"})
	}
	body("R-more", `{"order_no":"R-more","timeout":30,"qty":7}`)
	body("R-other", `{"order_no":"R-other","timeout":30,"note":"x"}`)
	body("R-text", `no JSON`)
	var told int
	s, err := Look(t.Context(), r.q, r.all("R"), func(Survey) { told++ })
	require.NoError(t, err)
	require.Equal(t, []int{5, 1, 3, 1}, []int{s.Orders, s.Flat, s.Columns.Odd(), s.Left})
	require.Equal(t, []string{"order_no", "timeout", "note"}, s.Columns.names)
	require.Len(t, s.Errors, 2, "%s", s.Errors)
	require.NotZero(t, told)

	var out bytes.Buffer
	written, left, err := Export(t.Context(), r.q, r.all("R"), NDJSON(&out), nil)
	require.NoError(t, err)
	require.Equal(t, []int{5, 1, 5}, []int{written, left, strings.Count(out.String(), "\n")})
	require.Contains(t, out.String(), `{"order_no":"R-more","timeout":30,"qty":7}`+"\n")
	out.Reset()
	written, left, err = Export(t.Context(), r.q, r.all("R"), Sheet(&out, s.Columns, importer.EscapeFormula), nil)
	require.NoError(t, err)
	require.Equal(t, []int{1, 5}, []int{written, left})
	require.Equal(t, "order_no,timeout,note,_outcome,_reason\nR-other,30,x,invalid,as it came\n", out.String())
}
