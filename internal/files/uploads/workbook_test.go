package uploads

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/testing/xlsxtest"
)

// TestWorkbook: a workbook is kept as it came, is the batch that it is for enqueue, and its
// results are a workbook or CSV.
func TestWorkbook(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	header := xlsxtest.Texts("order_no", "timeout", "item")
	rows := xlsxtest.Rows(header, xlsxtest.Texts("A-1", "30", "x"), `<c><v>42</v></c>`+xlsxtest.Texts("30", "x"), xlsxtest.Texts("007", "30", "=1+1"))
	content := string(xlsxtest.Book{Sheets: []string{rows, rows}, Names: []string{"May", "June"}}.Bytes())
	before := d.store.Used()
	u := keep(t, d.store, "march.xlsx", content)
	require.True(t, u.Book)
	require.EqualValues(t, len(content), u.Size)
	require.Equal(t, content, text(t, d.store, u))
	_, size := onDisk(t, d.store)
	require.Equal(t, before+size, d.store.Used())

	_, err := d.HeadAt(u.ID, "", 0, 1)
	require.ErrorContains(t, err, `2 sheets, and an import reads one: "May", "June"`)
	h, err := d.HeadAt(u.ID, "May", 0, 1)
	require.NoError(t, err)
	require.Equal(t, "May", h.Sheet)
	require.NoError(t, d.Check(u.ID, anna, ""))
	u = finished(t, d, u.ID)
	require.Equal(t, `march.xlsx: the workbook has 2 sheets, and an import reads one: "May", "June"; say which`, u.Checked.Stopped)

	require.NoError(t, arrange(d, u.ID, importer.Reading{Sheet: "June"}))
	require.NoError(t, d.Check(u.ID, anna, ""))
	u = finished(t, d, u.ID)
	require.Empty(t, u.Checked.Stopped)
	require.Equal(t, "June!A3", u.Checked.Bad[0].Place)
	require.Equal(t, importer.CodeExcel, u.Checked.Bad[0].Code)
	require.Equal(t, "order_no", u.Checked.Bad[0].Accept)
	require.Equal(t, "June", u.Checked.Summary.Sheet.Name)
	require.Equal(t, "march.xlsx.rejects.xlsx", u.Checked.Rejects)
	var rejects bytes.Buffer
	require.NoError(t, d.Rejects(t.Context(), u.ID, &rejects))
	back := checked(t, d, "rejects.xlsx", rejects.String())
	require.Equal(t, importer.CodeExcel, back.Checked.Bad[0].Code, "it is as bad as before")

	f, err := importer.Open(bytes.NewReader([]byte(content)), importer.Options{File: "x.xlsx", Reading: importer.Reading{Sheet: "June"}})
	require.NoError(t, err)
	require.Equal(t, f.Batch, u.Checked.Summary.Batch)

	u = imported(t, d, u.ID, importer.Sending{Direct: true, SkipInvalid: true})
	require.Equal(t, Done, u.Import.State, u.Import.Error)
	require.Equal(t, 2, u.Import.Summary.Stored)
	work(t, q, 2)
	for as, name := range map[importer.Format]string{importer.FormatCSV: "march.results.csv", importer.FormatXLSX: "march.results.xlsx"} {
		var results bytes.Buffer
		tally, err := d.ResultsAs(t.Context(), u.ID, &results, as)
		require.NoError(t, err)
		require.Equal(t, importer.Tally{"accepted": 2, "not-enqueued": 1}, tally)
		require.Equal(t, name, u.ResultsNameAs(as))
		h, err := importer.ReadHead(bytes.NewReader(results.Bytes()), importer.Options{File: name}, 3)
		require.NoError(t, err)
		require.Equal(t, as, h.Format)
		second := map[importer.Format]string{importer.FormatCSV: "#N/A", importer.FormatXLSX: "42"}[as] // in CSV nobody would ask about it
		require.Equal(t, []string{"A-1", second, "007"}, h.Columns[0].Samples)
		require.Equal(t, []string{"accepted", "not-enqueued", "accepted"}, h.Columns[3].Samples)
	}
}
