package uploads

import (
	"bytes"
	"context"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// numbersOf returns the numbers of a window's rows.
func numbersOf(w *Window) (out []int) {
	for _, l := range w.Lines {
		out = append(out, l.Number)
	}
	return out
}

// TestRows: any rows of a checked file are there at once, those with problems by themselves, and after an import with what
// became of their orders: the same as in the results file.
func TestRows(t *testing.T) {
	q := connect(t, startBroker(t))
	d := openDesk(t, openStore(t, t.TempDir()), q)
	content := numbered(1, 500) + "B-501,soon,1\n" + strings.TrimPrefix(numbered(502, 900), "order_no,timeout,qty\n") + "U-1,30,1\n"
	u := checked(t, d, "orders.csv", content)
	rows := func(which string, from, most int) *Window {
		t.Helper()
		w, err := d.Rows(t.Context(), u.ID, which, from, most)
		require.NoError(t, err)
		return w
	}
	w := rows(AllRows, 1, 100)
	require.Equal(t, []int{901, 2, 100, 101}, []int{w.Total, w.Bad, len(w.Lines), w.Next})
	require.Equal(t, []importer.GridColumn{{Column: 1, Name: "order_no"}, {Column: 2, Name: "timeout"}, {Column: 3, Name: "qty"}}, w.Columns)
	require.Equal(t, []string{"U-1", "30", "1"}, w.Lines[0].Cells)
	require.Nil(t, w.Lines[0].Outcome)
	w = rows(AllRows, 750, 151) // over the edge of a block
	require.Equal(t, 750, w.Lines[0].Number)
	require.Equal(t, "U-750", w.Lines[0].OrderNo)
	require.Equal(t, 901, w.Next)
	w = rows(AllRows, 901, 100)
	require.Equal(t, []int{901}, numbersOf(w))
	require.Zero(t, w.Next)
	require.Empty(t, rows(AllRows, 5000, 100).Lines)
	w = rows(BadRows, 1, 1)
	require.Equal(t, []int{501}, numbersOf(w))
	require.Equal(t, 901, w.Next)
	require.Equal(t, []any{importer.CodeType, 2, 502}, []any{w.Lines[0].Code, w.Lines[0].Column, w.Lines[0].Line})
	w = rows(BadRows, 901, 1)
	require.Equal(t, importer.CodeDuplicate, w.Lines[0].Code)
	require.Contains(t, w.Lines[0].Problem, "in line 2")
	require.Equal(t, `{"order_no":"U-900","timeout":30,"qty":"1"}`, u.Checked.Last)
	require.Empty(t, u.Checked.Sums, "the timeout is not added up")
	_, size := onDisk(t, d.store)
	require.Equal(t, size, d.store.Used())

	u = imported(t, d, u.ID, importer.Sending{Direct: true, SkipInvalid: true})
	require.Equal(t, Done, u.Import.State, u.Import.Error)
	answered := 0
	require.NoError(t, q.Pull(t.Context(), 600, 5*time.Second, func(ds []*settle.Delivery) {
		for _, delivery := range ds {
			h := delivery.History
			h.Attempts++
			h.FirstAttemptAt, h.LastAttemptAt = time.Unix(1_800_000_000, 0), time.Unix(1_800_000_001, 0)
			r := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, Response: "fine", History: h}
			if answered++; answered%100 == 0 {
				r.Verdict, r.Status, r.Response = order.Rejected, 422, "bad qty"
			}
			_, err := q.Worker.Settle(context.Background(), delivery, &r, order.Decide(&r, order.Facts{}))
			require.NoError(t, err)
			delivery.Release()
		}
	}))
	w = rows(FailedRows, 1, 100)
	require.Len(t, w.Lines, answered/100)
	require.Equal(t, importer.RowOutcome{Word: "rejected", Tone: xlsx.Bad, Status: "422", Response: "bad qty", Failed: true}, *w.Lines[0].Outcome)
	require.Len(t, rows("accepted", 1, 1000).Lines, answered-answered/100)
	require.Len(t, rows("not-enqueued", 1, 100).Lines, 2)

	var results bytes.Buffer
	_, err := d.Results(t.Context(), u.ID, &results)
	require.NoError(t, err)
	lines, err := csv.NewReader(&results).ReadAll()
	require.NoError(t, err)
	w = rows(AllRows, 1, 1000)
	require.Len(t, w.Lines, len(lines)-1)
	for i, l := range w.Lines {
		result := lines[i+1][3:]
		require.Equal(t, []string{result[0], result[2], result[7]}, []string{l.Outcome.Word, l.Outcome.Status, l.Outcome.Response}, "row %d", l.Number)
	}

	// A cell that is corrected, and a row that is left out, are so in the grid.
	set := u.Settings
	require.NoError(t, set.Correct(importer.Edit{Line: 502, Column: 2, Was: "soon", Now: "31"}))
	set.LeaveOutRow(902)
	require.NoError(t, arrange(d, u.ID, set))
	_, err = d.Rows(t.Context(), u.ID, AllRows, 1, 100)
	require.Equal(t, Unready, KindOf(err))
	require.NoError(t, d.Check(u.ID, anna, ""))
	u = finished(t, d, u.ID)
	require.Zero(t, u.Checked.Summary.Invalid)
	w = rows(AllRows, 501, 1)
	require.Equal(t, []string{"B-501", "31", "1"}, w.Lines[0].Cells)
	require.Equal(t, 900, w.Total)
	_, size = onDisk(t, d.store)
	require.Equal(t, size, d.store.Used(), "the file with the bad rows is gone")
}

// TestRowsOfOtherFiles: lines of NDJSON, cells that cannot be corrected, and sums.
func TestRowsOfOtherFiles(t *testing.T) {
	d := openDesk(t, openStore(t, t.TempDir()), nil)
	u := checked(t, d, "orders.ndjson", `{"order_no":"N-1","timeout":30,"amount":1.10}`+"\n"+`{"order_no":"N-2","timeout":30,"amount":2.20}`+"\n")
	w, err := d.Rows(t.Context(), u.ID, AllRows, 1, 10)
	require.NoError(t, err)
	require.Equal(t, []importer.GridColumn{{Name: "order"}}, w.Columns)
	require.Equal(t, []string{`{"order_no":"N-1","timeout":30,"amount":1.10}`}, w.Lines[0].Cells)
	require.False(t, w.Lines[0].Correctable(0))
	require.Len(t, u.Checked.Sums, 1)
	require.Equal(t, "3.3", u.Checked.Sums[0].Sum.String())

	u = checked(t, d, "orders.csv", "order_no,timeout,note\nA-1,30,\"two\nlines\"\nA-2,30,"+strings.Repeat("x", 300)+"\nA-3,30\n")
	w, err = d.Rows(t.Context(), u.ID, AllRows, 1, 10)
	require.NoError(t, err)
	require.Equal(t, [][]int{{2}, {2}, {2}}, [][]int{w.Lines[0].Cut, w.Lines[1].Cut, w.Lines[2].Cut})
	require.Less(t, len(w.Lines[1].Cells[2]), 300)
	require.Equal(t, importer.CodeCells, w.Lines[2].Code)

	u = checked(t, d, "empty.csv", "order_no,timeout\n")
	w, err = d.Rows(t.Context(), u.ID, AllRows, 1, 10)
	require.NoError(t, err)
	require.Empty(t, w.Lines)
}

// TestACheckThatFailsHalfWay: what it wrote already counts, and goes with the upload.
func TestACheckThatFailsHalfWay(t *testing.T) {
	s := openStore(t, t.TempDir())
	d := openDesk(t, s, nil)
	u := keep(t, s, "orders.csv", numbered(1, 500)+"B-501,soon,1\n")
	s.step = func(_, path string) error {
		if strings.Contains(path, rejectsFile) {
			return errStep
		}
		return nil
	}
	require.NoError(t, d.Check(u.ID, anna, ""))
	require.NoError(t, d.Wait(t.Context(), u.ID))
	require.ErrorIs(t, d.Failure(u.ID), errStep)
	names, size := onDisk(t, s)
	require.Equal(t, []string{packedFile, gridFile}, names)
	require.Equal(t, size, s.Used())
	require.NoError(t, d.Remove(u.ID, ""))
	require.Zero(t, s.Used())
}
