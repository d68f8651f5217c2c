package console

import (
	"fmt"
	"slices"
	"strconv"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/files/xlsx"
)

const (
	// gridRows is the most rows of a page, gridFields the most of those whose cells are all fields, and gridCells about the
	// most cells of a page.
	gridRows, gridFields, gridCells = 100, 50, 5_000
)

// gridPage is a window of the rows of a checked file.
type gridPage struct {
	*uploads.Look
	*uploads.Window
	// Which rows are shown, and the choices that there are.
	Which   string
	Choices []gridChoice
	// Unit is "row" or "line". Edit is the line of the row whose cells are all fields; 0 = of none.
	Unit string
	Edit int
	// First and Next are the addresses of other windows; empty = there are none.
	First, Next string
	// Outcomes and Problems say that there are columns of them.
	Outcomes, Problems bool
}

// gridChoice is a choice of rows.
type gridChoice struct {
	Name, Link string
	Current    bool
}

// gridOf reads a window of the rows of a checked file: which is as in [uploads.Desk.Rows].
func gridOf(v *visit, u *uploads.Look, which string, from int) (*gridPage, error) {
	ctx := v.brief()
	p := &gridPage{Look: u, Which: which, Unit: u.Checked.Summary.Format.Unit(), Outcomes: u.Import != nil && which != uploads.BadRows, Problems: u.Checked.Summary.Invalid > 0 && which != uploads.FailedRows}
	most := gridRows
	if which == uploads.FailedRows {
		most = gridFields
	}
	var err error
	if p.Window, err = v.s.desk.Rows(ctx, u.ID, which, from, most); err != nil {
		return nil, err
	}
	if fit := max(10, gridCells/max(len(p.Columns), 1)); len(p.Lines) > fit { // of a file with very many columns
		p.Window.Next, p.Lines = p.Lines[fit].Number, p.Lines[:fit]
	}
	p.Edit, _ = strconv.Atoi(v.query("edit"))
	if from > 1 {
		p.First = p.link(which, 0, 0)
	}
	if p.Window.Next > 0 {
		p.Next = p.link(which, p.Window.Next, 0)
	}
	choose := func(name, which string) {
		p.Choices = append(p.Choices, gridChoice{name, p.link(which, 0, 0), which == p.Which})
	}
	choose("all "+count(p.Total), uploads.AllRows)
	if p.Bad > 0 {
		choose("with problems "+count(p.Bad), uploads.BadRows)
	}
	if u.Import != nil {
		choose("to be corrected", uploads.FailedRows)
		for _, word := range importer.Words() {
			choose(word, word)
		}
	}
	return p, nil
}

// EditLink is the address of the same window, with the cells of a row as fields.
func (p *gridPage) EditLink(line int) string {
	return p.link(p.Which, p.Lines[0].Number, line) + "#line-" + strconv.Itoa(line)
}

// link returns the address of a window, in which the cells of a row are fields; 0 = of none.
func (p *gridPage) link(which string, from, edit int) string {
	if from == 1 {
		from = 0
	}
	return address(there(p.ID)+"/rows", parameters("show", which, "from", unlessZero(uint64(from)), "edit", unlessZero(uint64(edit))))
}

// Field reports whether a cell is shown as a field: those that are wrong, those of a row that failed, and those of the row
// that the person chose.
func (p *gridPage) Field(line *uploads.WindowRow, position int) bool {
	return p.Editable(line, position) && (line.Line == p.Edit || line.Code != "" && line.Column == p.Columns[position].Column || p.Which == uploads.FailedRows)
}

// Editable reports whether a cell can be corrected.
func (p *gridPage) Editable(line *uploads.WindowRow, position int) bool {
	return p.Columns[position].Column > 0 && line.Correctable(position)
}

// Caption says which rows the grid shows.
func (p *gridPage) Caption() string {
	n := len(p.Lines)
	switch {
	case p.Which == uploads.AllRows:
		return fmt.Sprintf("Rows %s to %s of %s", count(p.Lines[0].Number), count(p.Lines[n-1].Number), count(p.Total))
	case p.Which == uploads.BadRows && n < p.Bad:
		return fmt.Sprintf("%s of %s bad rows", count(n), count(p.Bad))
	case p.Which == uploads.BadRows:
		return plural(n, "bad row", "bad rows")
	case p.First != "" || p.Next != "":
		return plural(n, "row", "rows") + " of these"
	}
	return plural(n, "row", "rows")
}

// Span is how many columns the grid has.
func (p *gridPage) Span() int {
	n := 2 + len(p.Columns)
	if p.Outcomes {
		n += 2
	}
	if p.Problems {
		n++
	}
	return n
}

// showRows shows any rows of a checked file, for correction in their place, with what became of their orders.
func showRows(v *visit, u *uploads.Look) error {
	if u.Checked == nil || !u.Checked.Shown || u.Job != nil {
		return v.done(there(u.ID), "")
	}
	which, from := v.query("show"), 1
	if text := v.query("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 1 {
			return badRequest("These rows have no such page.", "Begin at their first page.")
		}
	}
	known := []string{uploads.AllRows, uploads.BadRows}
	if u.Import != nil {
		known = append(append(known, uploads.FailedRows), importer.Words()...)
	}
	if !slices.Contains(known, which) {
		return badRequest("There are no rows called "+shorten(which, 40)+".", "Choose one of the list.")
	}
	p, err := gridOf(v, u, which, from)
	if err != nil {
		return err
	}
	return v.render("rows", u.Name, p)
}

// resultTone returns the tone of a badge for a colour of a results file.
func resultTone(t xlsx.Tone) string {
	return map[xlsx.Tone]string{xlsx.Good: "good", xlsx.Quiet: "info", xlsx.Warn: "warn", xlsx.Bad: "bad"}[t]
}
