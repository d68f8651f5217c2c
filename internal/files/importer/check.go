package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// BadRows is the error of a file with rows that cannot be sent.
type BadRows struct {
	File string
	// Rows lists the first bad rows in file order.
	Rows []*RowError
	// More says that there may be further bad rows.
	More bool
	// Every says in one line what is wrong with every row that was read; "" = they differ.
	Every string
}

// Error lists the rows, one per line.
func (e *BadRows) Error() string {
	if e.Every != "" {
		return e.File + ": " + e.Every
	}
	lines := make([]string, 0, len(e.Rows)+1)
	for _, row := range e.Rows {
		lines = append(lines, row.Error())
	}
	if e.More {
		lines = append(lines, fmt.Sprintf("%s: stopped after %d bad rows (--max-errors)", e.File, len(e.Rows)))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors of the rows.
func (e *BadRows) Unwrap() []error {
	errs := make([]error, len(e.Rows))
	for i, row := range e.Rows {
		errs[i] = row
	}
	return errs
}

// maxResultsOf bounds how many imports a results file may name.
const maxResultsOf = 1000

var errEnough = errors.New("enough bad rows")

// Check reads the whole file and publishes nothing. It returns a [*BadRows] if some
// rows cannot be sent. With Options.SkipInvalid it only counts such rows and lists
// the first in Summary.Bad. Any other error concerns the file as a whole, as a [*WrongTotals] does.
func (f *File) Check(ctx context.Context) (Summary, error) {
	s := Summary{File: f.o.File, Batch: f.Batch}
	f.repeated, f.head, f.broken = newDuplicates(), nil, nil
	var broken set
	var foreign *RowError // the first cell in another encoding
	var rule oneRule
	f.rounded, f.notations, f.timed, f.resultsOf = nil, nil, false, nil
	began := time.Now()
	var bad []*RowError
	var long []rounding
	asked := false // about numbers whose column has to be read first
	t, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			row := &rows[i]
			s.Rows++
			f.countNotation(row)
			f.noteResults(row)
			if row.Err != nil && row.Err.asksOfColumn() {
				asked = true
				continue
			}
			if row.Err != nil && row.Err.Code == CodeEncoding && foreign == nil {
				foreign = row.Err.quote(row, f.head.format)
			}
			if row.Err != nil {
				if s.reject(row.Err); row.Err.Code == CodeSchema {
					broken.add(row.Number)
					rule.note(row.Err)
				}
				if len(bad) < f.o.MaxErrors {
					bad = append(bad, row.Err.quote(row, f.head.format))
				}
				if len(bad) == f.o.MaxErrors && !f.o.SkipInvalid {
					return errEnough
				}
				continue
			}
			s.warn(f.head, row)
			f.timed = f.timed || row.notBefore(f.o.NotBefore).After(began)
			long = f.countRounded(row, long)
			f.repeated.add(row.OrderNo, row.Line)
		}
		return nil
	})
	var fatal *RowError
	switch {
	case errors.Is(err, errEnough):
	case errors.As(err, &fatal):
		if f.head != nil {
			s.Format = f.head.format
		}
		s.reject(fatal)
		s.Bad = append(bad, fatal)
		return s, &BadRows{File: f.o.File, Rows: s.Bad}
	case err != nil:
		return s, err
	}
	if foreign != nil && t.text.beyond != nil && !t.text.beyond.found { // no character of the file says that it is UTF-8
		s.describe(t)
		s.Bad = []*RowError{foreign}
		return s, &BadRows{File: f.o.File, Rows: s.Bad}
	}
	s.describe(t)
	more := errors.Is(err, errEnough)
	if !more {
		f.broken = &broken
	}
	s.Every = rule.every(s.Rows)
	if err := f.findRepeated(ctx, more); err != nil {
		return s, err
	}
	if more { // nobody knows what the rest of the columns proves
		f.notations = nil
	}
	rounded, notations := f.judgeRounded(long), f.judgeNotations(asked && !more)
	if rounded || f.repeated.count > 0 || notations {
		if bad, err = f.findLateProblems(ctx, &s, bad); err != nil {
			return s, err
		}
	}
	s.Bad = bad
	slices.SortStableFunc(s.InvalidKinds, func(a, b InvalidKind) int { return cmp.Compare(a.Line, b.Line) })
	if len(bad) == 0 || f.o.SkipInvalid {
		return s, f.checkTotals(ctx, &s, t.found)
	}
	return s, &BadRows{File: f.o.File, Rows: bad, More: more || s.Invalid > len(bad), Every: s.Every}
}

// noteResults notes whose result a row of a results file has.
func (f *File) noteResults(row *Row) {
	i := slices.Index(f.head.header, batchColumn)
	if i >= 0 && i < len(row.Cells) && row.Cells[i] != "" && hasAll(f.head.header, resultColumns) && len(f.resultsOf) < maxResultsOf {
		put(&f.resultsOf, row.Cells[i], true)
	}
}

// oneRule notes whether all rows break one and the same rule of the schema.
type oneRule struct {
	rule  string
	first *RowError
	rows  int
}

// suspectRows is how many rows must break one rule, and no row another or none, before
// the schema or the columns' types are suspected instead of the rows.
const suspectRows = 5

func (o *oneRule) note(bad *RowError) {
	v, _ := errors.AsType[*schema.Violation](bad)
	if o.first == nil {
		o.first, o.rule = bad, v.Rule
	}
	if v.Rule == o.rule {
		o.rows++
	}
}

// every returns what is wrong with every one of the rows; "" = not all break one rule.
func (o *oneRule) every(rows int) string {
	if o.rows < max(rows, suspectRows) {
		return ""
	}
	return fmt.Sprintf("every row that was read (%d) breaks the same rule of the order schema, as in %s: %s; is the schema right, and has the column the type that it wants?",
		rows, o.first.Place(), o.first.Message())
}

// findRepeated completes the search for order numbers that occur twice. For a very large
// file it reads the rows again for each share of the numbers, unless the check stops here.
func (f *File) findRepeated(ctx context.Context, stop bool) error {
	for f.repeated.find() && !stop {
		if _, err := f.scan(ctx, func(rows []Row) error {
			for i := range rows {
				if rows[i].Err == nil {
					f.repeated.add(rows[i].OrderNo, rows[i].Line)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// findLateProblems reads the file again and finds the rows that are bad only in the
// context of the whole file: repeated order numbers, numbers that look rounded, and
// numbers that read differently with a decimal comma. The
// first pass keeps only hashes of the order numbers. findLateProblems counts the rows
// and adds the first ones to bad.
func (f *File) findLateProblems(ctx context.Context, s *Summary, bad []*RowError) ([]*RowError, error) {
	var later []*RowError
	_, err := f.scan(ctx, func(rows []Row) error {
		for i := range rows {
			if rows[i].Err != nil && (f.notations == nil || !rows[i].Err.asksOfColumn()) {
				continue
			}
			problem := f.problem(&rows[i])
			if problem == nil {
				continue
			}
			if s.reject(problem); len(later) < f.o.MaxErrors {
				later = append(later, problem.quote(&rows[i], f.head.format))
			} else if !f.o.SkipInvalid {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	bad = append(bad, later...)
	slices.SortStableFunc(bad, func(a, b *RowError) int { return cmp.Compare(a.Line, b.Line) })
	return bad[:min(len(bad), f.o.MaxErrors)], nil
}

func (f *File) repeatedError(row *Row) *RowError {
	unit := f.head.format.Unit()
	where := "in an earlier " + unit
	if line := f.repeated.firstLine(row.Line); line > 0 {
		where = fmt.Sprintf("in %s %d", unit, line)
	}
	return &RowError{File: f.o.File, Sheet: f.head.sheet, Line: row.Line, Name: order.FieldOrderNo, Code: CodeDuplicate,
		Err: fmt.Errorf("order_no %q occurs %s already; each order needs its own", row.OrderNo, where)}
}

// problem returns why a row must not be enqueued, or nil for a good row. Call it
// after Check has read the file.
func (f *File) problem(row *Row) *RowError {
	if f.notations != nil && (row.Err == nil || row.Err.asksOfColumn()) {
		if bad := f.notationError(row); bad != nil {
			return bad
		}
	}
	switch {
	case row.Err != nil:
		return row.Err
	case f.rounded != nil && f.roundedError(row) != nil:
		return f.roundedError(row)
	case f.repeated.has(row.Line):
		return f.repeatedError(row)
	}
	return nil
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

// Preview returns the first n orders as they would be sent, without timestamp.
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
