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
	out, escape, err := f.newRows(w, f.head.format, append(header, "_row", "_column", "_code", "_message"))
	if err != nil {
		return err
	}
	line, kinds := make([]string, 0, len(header)+4), make([]xlsx.Kind, 0, len(header))
	err = f.eachBad(ctx, func(row *Row, bad *RowError) error {
		line, kinds = line[:0], kinds[:0]
		for _, i := range columns {
			cell := ""
			if i < len(row.Cells) {
				cell = row.Cells[i]
			}
			line, kinds = append(line, cell), append(kinds, kindOf(row.kinds, i))
		}
		column := ""
		if bad.Column > 0 && f.head.format == FormatXLSX {
			column = xlsx.ColumnName(bad.Column)
		} else if bad.Column > 0 {
			column = strconv.Itoa(bad.Column)
		}
		line = append(line, strconv.Itoa(row.Line), column, string(bad.Code), escape(bad.Message()))
		if surplus := len(f.head.header); len(row.Cells) > surplus {
			line = append(line, row.Cells[surplus:]...) // keep every cell of the row
		}
		return out.Write(line, kinds, -1, xlsx.Plain)
	})
	if err != nil {
		return err
	}
	return out.Close()
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
