package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"orderpost/internal/files/xlsx"
)

// Edit is a cell that a person corrected. The file keeps what it holds.
type Edit struct {
	// Line is where the row begins, and Column counts its cells from 1.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Was is what the file holds there, and Now what is sent.
	Was string `json:"was"`
	Now string `json:"now"`
}

const (
	// MaxEdits is how many cells of a file can be corrected. The record of the import has them all.
	MaxEdits = 500
	// maxEdited is the most bytes of a corrected cell.
	maxEdited = 200
)

// Correct changes a cell, which shows was by now, to now. A cell that is as in the file again is not corrected.
func (r *Reading) Correct(e Edit) error {
	edits := slices.Clone(r.Edits)
	if i := slices.IndexFunc(edits, func(o Edit) bool { return o.Line == e.Line && o.Column == e.Column }); i >= 0 {
		e.Was = edits[i].Was
		edits = slices.Delete(edits, i, i+1)
	}
	if e.Was != e.Now {
		edits = append(edits, e)
	}
	switch {
	case e.Line < 1 || e.Column < 1:
		return fmt.Errorf("there is no cell %d of line %d", e.Column, e.Line)
	case len(e.Now) > maxEdited || !utf8.ValidString(e.Now) || strings.ContainsAny(e.Now, "\x00\r\n"):
		return fmt.Errorf("the cell %d of line %d can be one line of up to %d bytes here; correct the file, and bring it again", e.Column, e.Line, maxEdited)
	case len(edits) > MaxEdits:
		return fmt.Errorf("%d cells can be corrected here; correct the file, and bring it again", MaxEdits)
	}
	slices.SortFunc(edits, func(a, b Edit) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	r.Edits = edits
	return nil
}

// LeaveOutRow leaves out the row that begins in a line.
func (r *Reading) LeaveOutRow(line int) {
	if !slices.ContainsFunc(r.skips(), func(s rowSpan) bool { return s.from <= line && line <= s.to }) {
		r.SkipRows = strings.TrimPrefix(fmt.Sprintf("%s,%d", r.SkipRows, line), ",")
	}
}

// byLine returns the corrected cells of each row.
func byLine(edits []Edit) map[int][]Edit {
	if len(edits) == 0 {
		return nil
	}
	out := make(map[int][]Edit)
	for _, e := range edits {
		out[e.Line] = append(out[e.Line], e)
	}
	return out
}

// correct changes the cells of a row that a person corrected.
func (t *table) correct(rec *record) {
	edits := t.edits[rec.line]
	if len(edits) == 0 || rec.bad != nil {
		return
	}
	rec.cells, rec.kinds = slices.Clone(rec.cells), slices.Clone(rec.kinds)
	for _, e := range edits {
		i := e.Column - 1
		if i >= len(rec.cells) || rec.cells[i] != e.Was {
			rec.bad = &RowError{File: t.file, Sheet: t.sheet, Line: rec.line, Column: e.Column, Code: CodeEdit,
				Err: fmt.Errorf("the cell was corrected to %q where it held %q, which it does not hold as the file is read now; leave the row out, or read the file as before", clip(e.Now), clip(e.Was))}
			return
		}
		if rec.cells[i] = e.Now; rec.kinds != nil {
			rec.kinds[i] = xlsx.Text
		}
	}
}

// editedColumn of a results file says what a row's corrected cells held.
const editedColumn = "_edited"

// editedIn says what the corrected cells of a row held before; "" = none was corrected.
func (f *File) editedIn(line int) string {
	var said []string
	for _, e := range f.head.edits[line] {
		said = append(said, f.head.header[min(e.Column, len(f.head.header))-1]+" was "+e.Was)
	}
	return strings.Join(said, "; ")
}
