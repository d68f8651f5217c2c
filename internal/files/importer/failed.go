package importer

import (
	"context"
	"errors"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// FailedRow is a row that was imported, and whose order certainly was not created.
type FailedRow struct {
	// Line is where the row begins. Cells are those as they were sent.
	Line  int
	Cells []FailedCell
	// Outcome, Reason and Response are what a results file says of the row.
	Outcome, Reason, Response string
}

// FailedCell is a cell of a row that failed. Column counts from 1.
type FailedCell struct {
	Column int
	Value  string // clipped, unless Correctable
	// Correctable says that Value is the whole cell, which can be corrected ([Reading.Correct]).
	Correctable bool
}

// Failed returns the first rows of a checked file whose orders certainly were not created, in file order, with the names
// of their columns. more says that there are others. It finds none of NDJSON, which has no cells.
func (f *File) Failed(ctx context.Context, q *queue.Queue, most int) (header []string, rows []FailedRow, more bool, err error) {
	columns, header := f.original()
	err = f.eachStatus(ctx, q, func(page []Row, statuses []status.OrderStatus) error {
		for i := range page {
			row := &page[i]
			bad := f.problem(row)
			said := resultOf(row, bad, &statuses[i], false)
			if bad != nil || said[8] != order.OutcomeRejected.Created() || !statuses[i].Record.Outcome().NeedsLetter() || len(columns) == 0 {
				continue
			}
			if len(rows) == most {
				return errEnough
			}
			failed := FailedRow{Line: row.Line, Outcome: said[0], Reason: said[3], Response: said[7]}
			for _, c := range columns {
				value, whole := shown(row.Cells[c])
				failed.Cells = append(failed.Cells, FailedCell{c + 1, value, whole})
			}
			rows = append(rows, failed)
		}
		return nil
	})
	if more = errors.Is(err, errEnough); more {
		err = nil
	}
	return header, rows, more, err
}
