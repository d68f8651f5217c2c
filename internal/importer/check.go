package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orderpost/internal/order"
)

// BadRows is returned for a file whose rows cannot all be sent.
type BadRows struct {
	File string
	// Rows are the first of them, in the file's order.
	Rows []*RowError
	// More: there are others; the check stopped or did not list them.
	More bool
}

// Error lists the rows, one a line.
func (e *BadRows) Error() string {
	lines := make([]string, 0, len(e.Rows)+1)
	for _, row := range e.Rows {
		lines = append(lines, row.Error())
	}
	if e.More {
		lines = append(lines, fmt.Sprintf("%s: stopped after %d bad rows (--max-errors)", e.File, len(e.Rows)))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the rows.
func (e *BadRows) Unwrap() []error {
	errs := make([]error, len(e.Rows))
	for i, row := range e.Rows {
		errs[i] = row
	}
	return errs
}

var errEnough = errors.New("enough bad rows")

// Check reads the whole file and says what it is. The error is *BadRows where
// rows cannot be sent; with Options.SkipInvalid they are only counted, and
// listed in Summary.Bad. Other errors are about the file as a whole. Nothing is
// published.
func (f *File) Check(ctx context.Context) (Summary, error) {
	s := Summary{File: f.o.File, Batch: f.Batch}
	f.repeated = newDuplicates()
	defer f.repeated.close()
	var bad []*RowError
	t, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			row := &rows[i]
			s.Rows++
			if row.Err != nil {
				s.Invalid++
				if len(bad) < f.o.MaxErrors {
					bad = append(bad, row.Err)
				}
				if len(bad) == f.o.MaxErrors && !f.o.SkipInvalid {
					return errEnough
				}
				continue
			}
			s.warn(f.o.File, row)
			if err := f.repeated.add(row.OrderNo, row.Line); err != nil {
				return err
			}
		}
		return nil
	})
	var fatal *RowError
	switch {
	case errors.Is(err, errEnough):
	case errors.As(err, &fatal):
		return s, &BadRows{File: f.o.File, Rows: append(bad, fatal)}
	case err != nil:
		return s, err
	}
	repeated, findErr := f.repeated.find()
	if findErr != nil {
		return s, findErr
	}
	s.Invalid += repeated
	s.describe(t)
	if repeated > 0 {
		if bad, err = f.nameRepeated(ctx, bad); err != nil {
			return s, err
		}
	}
	s.Bad, f.head = bad, t
	if len(bad) == 0 || f.o.SkipInvalid {
		return s, nil
	}
	return s, &BadRows{File: f.o.File, Rows: bad, More: errors.Is(err, errEnough) || s.Invalid > len(bad)}
}

// nameRepeated reads the file once more for the order numbers that occur
// twice, whose hashes are all that was kept of them.
func (f *File) nameRepeated(ctx context.Context, bad []*RowError) ([]*RowError, error) {
	var repeated []*RowError
	_, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			if rows[i].Err == nil && f.repeated.has(rows[i].Line) {
				repeated = append(repeated, f.repeatedError(&rows[i]))
				if len(repeated) == f.o.MaxErrors {
					return errEnough
				}
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	bad = append(bad, repeated...)
	slices.SortStableFunc(bad, func(a, b *RowError) int { return cmp.Compare(a.Line, b.Line) })
	return bad[:min(len(bad), f.o.MaxErrors)], nil
}

func (f *File) repeatedError(row *Row) *RowError {
	where := "in an earlier line"
	if line := f.repeated.firstLine(row.Line); line > 0 {
		where = fmt.Sprintf("in line %d", line)
	}
	return &RowError{File: f.o.File, Line: row.Line, Name: order.FieldOrderNo, Code: CodeDuplicate,
		Err: fmt.Errorf("order_no %q occurs %s already; each order needs its own", row.OrderNo, where)}
}

// problem says why a row is not to be enqueued; nil for a good one. The file
// has been checked.
func (f *File) problem(row *Row) *RowError {
	if row.Err == nil && f.repeated.has(row.Line) {
		return f.repeatedError(row)
	}
	return row.Err
}

// Preview gives the first n orders as they would be sent, but for the
// timestamp.
func (f *File) Preview(ctx context.Context, n int) ([]Row, error) {
	var first []Row
	_, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			if f.problem(&rows[i]) == nil {
				first = append(first, rows[i])
			}
			if len(first) == n {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return first, err
}
