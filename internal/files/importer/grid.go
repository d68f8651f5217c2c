package importer

import (
	"context"
	"errors"
	"slices"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// GridColumn is a column of a grid. Column is its position in the file from 1; 0 = it is no column of the file.
type GridColumn struct {
	Column int    `json:"at"`
	Name   string `json:"name"`
}

// GridRow is a row of a checked file as pages show it, with what finds the outcome of its order. Its JSON is kept beside
// an upload.
type GridRow struct {
	// Number counts the rows from 1, without blank ones and those that are left out. Line is where the row begins.
	Number int `json:"n"`
	Line   int `json:"l"`
	// Cells has a cell for each GridColumn: of NDJSON the line. Cut are the positions of those that are shown clipped, or
	// that a field of a form cannot hold, so that they cannot be corrected ([Reading.Correct]).
	Cells []string `json:"c"`
	Cut   []int    `json:"cut,omitempty"`
	// OrderNo and BodyHash are those of the row's order; empty = it has none.
	OrderNo  string `json:"o,omitempty"`
	BodyHash string `json:"h,omitempty"`
	// Code and Problem say why the row cannot be sent; empty = it can. Column is the cell's, from 1; 0 = the whole row.
	Code    Code   `json:"code,omitempty"`
	Problem string `json:"problem,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// GridColumns returns the columns of a checked file, without those that a rejects or results file added.
func (f *File) GridColumns() []GridColumn {
	columns, header := f.original()
	if len(columns) == 0 {
		return []GridColumn{{Name: "order"}}
	}
	out := make([]GridColumn, len(columns))
	for i, c := range columns {
		out[i] = GridColumn{c + 1, header[i]}
	}
	return out
}

// GridRow returns a row of a checked file for a grid with these columns (GridColumns). bad is why it must not be enqueued.
func (f *File) GridRow(columns []GridColumn, row *Row, bad *RowError) GridRow {
	g := GridRow{Number: row.Number, Line: row.Line, Cells: make([]string, len(columns))}
	for i, c := range columns {
		whole := false
		if at := max(c.Column-1, 0); at < len(row.Cells) {
			g.Cells[i], whole = shown(row.Cells[at], maxEdited)
		}
		if !whole || c.Column == 0 {
			g.Cut = append(g.Cut, i)
		}
	}
	if g.BodyHash = row.bodyHash(); g.BodyHash != "" {
		g.OrderNo = row.OrderNo
	}
	if bad != nil {
		g.Code, g.Problem, g.Column = bad.Code, bad.Plain(), bad.Column
	}
	return g
}

// Correctable reports whether the cell of a position can be corrected.
func (g *GridRow) Correctable(position int) bool { return !slices.Contains(g.Cut, position) }

// RowOutcome is what a results file says of a row.
type RowOutcome struct {
	Word, Status, Reason, Response string
	// Tone is the colour of the word.
	Tone xlsx.Tone
	// Failed says that the row's order was settled, and certainly not created: a correction can be sent under its number.
	Failed bool
}

// Outcomes returns what became of the orders of rows. waiting says that orders of their import wait for their turn or
// time: those of which nothing else is known.
func Outcomes(ctx context.Context, q *queue.Queue, rows []GridRow, waiting bool) ([]RowOutcome, error) {
	bad := make([]*RowError, len(rows))
	for i := range rows {
		if r := &rows[i]; r.Code != "" {
			bad[i] = &RowError{Line: r.Line, Code: r.Code, Err: errors.New(r.Problem)}
		}
	}
	statuses, err := statusesOf(ctx, q, len(rows), func(i int) (string, bool) {
		return rows[i].OrderNo, rows[i].OrderNo != "" && (bad[i] == nil || bad[i].IsQuestion())
	})
	if err != nil {
		return nil, err
	}
	out := make([]RowOutcome, len(rows))
	for i := range rows {
		said := resultOf(rows[i].BodyHash, bad[i], &statuses[i], waiting)
		out[i] = RowOutcome{Word: said[0], Tone: tone(said[0]), Status: said[2], Reason: said[3], Response: said[7],
			Failed: bad[i] == nil && said[8] == order.OutcomeRejected.Created() && statuses[i].Record.Outcome().NeedsLetter()}
	}
	return out, nil
}
