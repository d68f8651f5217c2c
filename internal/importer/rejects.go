package importer

import (
	"context"
	"fmt"
	"io"
	"strconv"
)

// WriteRejects writes the bad rows of a checked file: the original columns
// untouched, behind them what is wrong, so that the file can be corrected and
// imported as it is. Of NDJSON the lines are written as they are.
func (f *File) WriteRejects(ctx context.Context, w io.Writer) error {
	if f.head.format == FormatNDJSON {
		return f.eachBad(ctx, func(row *Row, _ *RowError) error {
			_, err := fmt.Fprintln(w, row.Cells[0])
			return err
		})
	}
	out, err := f.newSheet(w)
	if err != nil {
		return err
	}
	columns, header := f.original()
	if err := out.Write(append(header, "_row", "_column", "_code", "_message")); err != nil {
		return err
	}
	line := make([]string, 0, len(header)+4)
	err = f.eachBad(ctx, func(row *Row, bad *RowError) error {
		line = line[:0]
		for _, i := range columns {
			cell := ""
			if i < len(row.Cells) {
				cell = row.Cells[i]
			}
			line = append(line, cell)
		}
		column := ""
		if bad.Column > 0 {
			column = strconv.Itoa(bad.Column)
		}
		line = append(line, strconv.Itoa(row.Line), column, string(bad.Code), neutral(bad.Message()))
		if surplus := len(f.head.header); len(row.Cells) > surplus {
			line = append(line, row.Cells[surplus:]...) // nothing of the row may be lost
		}
		return out.Write(line)
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
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

// RejectsName is the name of the file that bad rows of a file go to.
func (f *File) RejectsName(path string) string {
	if f.head != nil && f.head.format == FormatNDJSON {
		return path + ".rejects.ndjson"
	}
	return path + ".rejects.csv"
}
