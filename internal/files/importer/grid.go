package importer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
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

// Each passes every row of a checked file to visit, in file order, with why it must not be enqueued; nil for a good one.
func (f *File) Each(ctx context.Context, visit func(row *Row, bad *RowError) error) error {
	_, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			if err := visit(&rows[i], f.problem(&rows[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// GridRow returns a row of a checked file for a grid with its GridColumns. bad is why it must not be enqueued.
func (f *File) GridRow(row *Row, bad *RowError) GridRow {
	g := GridRow{Number: row.Number, Line: row.Line}
	columns, _ := f.original()
	if len(columns) == 0 {
		columns = []int{0}
	}
	for i, c := range columns {
		text, whole := "", false
		if c < len(row.Cells) {
			text, whole = editable(row.Cells[c])
		}
		if g.Cells = append(g.Cells, text); !whole || !f.head.format.hasColumns() {
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

// editable clips a cell to what can be corrected, and says whether it is whole, and text that a field of a form can hold.
func editable(cell string) (text string, whole bool) {
	text = order.Clip(cell, maxEdited)
	return text, text == cell && utf8.ValidString(cell) && !strings.ContainsAny(cell, "\x00\r\n")
}

// Correctable reports whether the cell of a position can be corrected.
func (g *GridRow) Correctable(position int) bool { return !slices.Contains(g.Cut, position) }

// RowOutcome is what a results file says of a row.
type RowOutcome struct {
	Word, Status, Reason, Response string
	// Failed says that the row's order was settled, and certainly not created: a correction can be sent under its number.
	Failed bool
}

// Outcomes returns what became of the orders of rows. waiting says that orders of their import wait for their turn or
// time: those of which nothing else is known.
func Outcomes(ctx context.Context, q *queue.Queue, rows []GridRow, waiting bool) ([]RowOutcome, error) {
	bad := make([]*RowError, len(rows))
	var numbers []string
	var index []int
	for i := range rows {
		if r := &rows[i]; r.Code != "" {
			bad[i] = &RowError{Line: r.Line, Code: r.Code, Err: errors.New(r.Problem)}
		}
		if rows[i].OrderNo != "" && (bad[i] == nil || bad[i].question()) {
			numbers, index = append(numbers, rows[i].OrderNo), append(index, i)
		}
	}
	found, err := status.OrderStatuses(ctx, q, numbers)
	if err != nil {
		return nil, err
	}
	statuses := make([]status.OrderStatus, len(rows))
	for k, i := range index {
		statuses[i] = found[k]
	}
	out := make([]RowOutcome, len(rows))
	for i := range rows {
		said := resultOf(rows[i].BodyHash, bad[i], &statuses[i], waiting)
		out[i] = RowOutcome{Word: said[0], Status: said[2], Reason: said[3], Response: said[7],
			Failed: bad[i] == nil && said[8] == order.OutcomeRejected.Created() && statuses[i].Record.Outcome().NeedsLetter()}
	}
	return out, nil
}
