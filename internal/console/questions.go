package console

import (
	"slices"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
)

// question is a kind of cells of one field that the check asks about.
type question struct {
	Field string
	Code  importer.Code
	Or    importer.Code // another answer; "" = there is none
	Rows  int
	// AtLeast: the check lists no more bad rows than those that are counted here.
	AtLeast bool
	// Lossy: the spreadsheet may have lost a part of what these cells held.
	Lossy bool
	// Cells are the first different ones. More: there are others.
	Cells []string
	More  bool
	Line  int // of the first
	// Leave are the rows of all these cells, which can be left out together; nil = not all are known.
	Leave []int
}

// Reading reports whether the question is how numbers are written, and not whether cells
// are right.
func (q *question) Reading() bool {
	return q.Code == importer.CodeComma || q.Code == importer.CodeThousands
}

// lossy are the codes of cells that a spreadsheet may have changed for good. Whoever
// accepts them sends what is left.
var lossy = []importer.Code{importer.CodeExcel, importer.CodeError, importer.CodeRounded, importer.CodeDate}

// questionCells is how many different cells a question shows.
const questionCells = 8

// questions groups the bad rows that a person may accept, the lossy ones last.
func questions(c *uploads.Checked) (out []*question) {
	for _, bad := range c.Bad {
		if bad.Accept == "" {
			continue
		}
		at := slices.IndexFunc(out, func(q *question) bool { return q.Field == bad.Accept && q.Code == bad.Code && q.Or == bad.Or })
		if at < 0 {
			at = len(out)
			out = append(out, &question{Field: bad.Accept, Code: bad.Code, Or: bad.Or, Line: bad.Line, AtLeast: c.Summary.Invalid > len(c.Bad), Lossy: slices.Contains(lossy, bad.Code)})
		}
		q := out[at]
		q.Rows++
		if bad.Row > 0 && !q.AtLeast && len(q.Leave) == q.Rows-1 {
			q.Leave = append(q.Leave, bad.Row)
		}
		switch {
		case slices.Contains(q.Cells, bad.Value):
		case len(q.Cells) < questionCells:
			q.Cells = append(q.Cells, bad.Value)
		default:
			q.More = true
		}
	}
	for _, q := range out {
		if len(q.Leave) < q.Rows {
			q.Leave = nil
		}
	}
	slices.SortStableFunc(out, func(a, b *question) int {
		switch {
		case a.Lossy == b.Lossy:
			return 0
		case b.Lossy:
			return -1
		}
		return 1
	})
	return out
}

// warnedRows says how many rows have a warning. The kinds of warnings are counted one by
// one, and a row may have several.
func warnedRows(s importer.Summary) string {
	most, all := 0, 0
	for _, kind := range s.WarningKinds {
		most, all = max(most, kind.Rows), all+kind.Rows
	}
	if all = min(all, s.Rows); most == all {
		return count(all)
	}
	return count(most) + " to " + count(all)
}
