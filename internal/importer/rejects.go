package importer

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"orderpost/internal/xlsx"
)

// WriteRejects writes the bad rows of a checked file. It writes the original columns
// unchanged, followed by columns that say what is wrong. The corrected file can be
// imported as it is. NDJSON lines are written unchanged, without additions. The rejects of
// a workbook are a workbook: in CSV a number in order_no would look like text, and nobody
// would ask about it any more.
func (f *File) WriteRejects(ctx context.Context, w io.Writer) error {
	if f.head.format == FormatNDJSON {
		return f.eachBad(ctx, func(row *Row, _ *RowError) error {
			_, err := fmt.Fprintln(w, row.Cells[0])
			return err
		})
	}
	columns, header := f.original()
	out, escape, err := f.newRows(w, f.head.format, append(header, rejectColumns...))
	if err != nil {
		return err
	}
	line, kinds := make([]string, 0, len(header)+4), make([]xlsx.Kind, 0, len(header))
	err = f.eachBad(ctx, func(row *Row, bad *RowError) error {
		line, kinds = line[:0], kinds[:0]
		for _, i := range columns {
			cell, kind := f.cellAgain(row, i, f.head.format, true)
			line, kinds = append(line, cell), append(kinds, kind)
		}
		column := ""
		if bad.Column > 0 && f.head.format == FormatXLSX {
			column = xlsx.ColumnName(bad.Column)
		} else if bad.Column > 0 {
			column = strconv.Itoa(bad.Column)
		}
		line = append(line, strconv.Itoa(row.Line), column, string(bad.Code), escape(bad.Message()))
		line = append(line, f.surplus(row)...)
		return out.Write(line, kinds, -1, xlsx.Plain)
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// notAvailable stands in a rejects or results file for what it cannot hold. An import asks
// about it, or refuses it. An empty cell would make a bad row look corrected.
const notAvailable = "#N/A"

// cellAgain returns a cell of a row for a rejects or results file. Where the row lacks the
// cell, it is notAvailable. So it is in the CSV of a workbook, where everything is text, if an
// import of the workbook would ask about the cell and has not sent the row.
func (f *File) cellAgain(row *Row, i int, as Format, unsent bool) (cell string, kind xlsx.Kind) {
	if i >= len(row.Cells) {
		return notAvailable, xlsx.Error
	}
	kind = kindOf(row.kinds, i)
	if unsent && as == FormatCSV && f.head.layout.asks(i, kind) {
		return notAvailable, kind
	}
	return row.Cells[i], kind
}

// surplus returns the cells of a row behind its last column. They stand at the end of the row
// in a rejects or results file, so that it is as bad as before.
func (f *File) surplus(row *Row) []string {
	if f.head.format == FormatNDJSON {
		return nil
	}
	return row.Cells[min(len(f.head.header), len(row.Cells)):]
}

func (f *File) eachBad(ctx context.Context, visit func(*Row, *RowError) error) error {
	_, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			if bad := f.problem(&rows[i]); bad != nil {
				if err := visit(&rows[i], bad); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// RejectsName returns the name of the rejects file for a path.
func (f *File) RejectsName(path string) string {
	if f.head != nil && f.head.format != FormatCSV {
		return path + ".rejects." + string(f.head.format)
	}
	return path + ".rejects.csv"
}
