package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"orderpost/internal/order"
)

// Head is the beginning of a file: what a person sees before they map its columns.
type Head struct {
	Format    Format
	Encoding  string
	Delimiter string
	// Sheet is the sheet of a workbook that is read, and Sheets lists all of them.
	Sheet   string
	Sheets  []string
	Columns []Column
	// Lines are the first lines of NDJSON, clipped.
	Lines []string

	t *table
}

// Column is one column of a CSV file.
type Column struct {
	Name string
	// Field and Type are what the name alone says. Odd says that the name can be no
	// field: the column needs another one.
	Field string
	Type  Type
	Odd   bool
	// Skipped says that a results or rejects file added the column.
	Skipped bool
	// Samples are the first cells, clipped.
	Samples []string
}

// ReadHead reads the header and the first rows of a file as an import with these
// options would, whatever the mapping is.
func ReadHead(content io.ReadSeeker, o Options, rows int) (*Head, error) {
	t, book, closeAll, err := openOnce(content, &o)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	h := &Head{Format: t.format, Sheet: t.sheet, t: t}
	if book != nil {
		for _, s := range book.Sheets() {
			h.Sheets = append(h.Sheets, s.Name)
		}
	}
	own := ownColumns(t.header)
	for _, name := range t.header {
		c, err := readColumn(name, own, Mapping{})
		if err != nil {
			c.field, c.typ = name, TypeString
		}
		odd := err != nil || slices.Contains(strings.Split(c.field, "."), "")
		h.Columns = append(h.Columns, Column{Name: name, Field: c.field, Type: c.typ, Odd: odd && !c.skip, Skipped: c.skip})
	}
	if t.format == FormatCSV {
		h.Delimiter = string(t.dialect.comma)
	}
	if t.format == FormatCSV && t.width > len(t.header) { // all of them at the end, which only can be left out
		h.Columns = append(h.Columns, Column{Odd: true})
	}
	for range rows {
		rec, err := t.next()
		var bad *RowError
		if errors.Is(err, io.EOF) || errors.As(err, &bad) { // the check reports it
			break
		} else if err != nil {
			return nil, err
		}
		h.sample(rec.cells)
	}
	h.Encoding = t.text.encoding
	return h, nil
}

func (h *Head) sample(cells []string) {
	if h.Format == FormatNDJSON {
		h.Lines = append(h.Lines, clip(cells[0]))
		return
	}
	for i := range min(len(h.Columns), len(cells)) {
		h.Columns[i].Samples = append(h.Columns[i].Samples, clip(cells[i]))
	}
}

// Try returns what is wrong with a mapping for this file, by the rules of the import.
func (h *Head) Try(m Mapping) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return h.t.arrange(m)
}

// synonyms lists names that columns of the two obligatory fields have in other programs.
// A name is compared by its letters alone.
var synonyms = map[string][]string{
	order.FieldOrderNo: {"orderno", "ordernumber", "ordernum", "ordernr", "orderid", "order", "auftragsnummer", "auftragsnr", "auftrag",
		"bestellnummer", "bestellnr", "numerodecommande", "numérodecommande", "ordernummer", "númerodepedido", "numerodepedido"},
	order.FieldTimeout: {"timeout", "timeouts", "timeoutsec", "timeoutseconds", "timeoutinseconds"},
}

// Propose returns a mapping for the columns. It names the two obligatory fields where
// a column's name tells them, and mends names that no field can have. It guesses no
// types: every other cell stays text, as in an import without mapping.
func (h *Head) Propose() Mapping {
	var m Mapping
	if !h.Format.hasColumns() {
		return m
	}
	rename := func(from, to string) { put(&m.Rename, from, to) }
	fields := make(map[string]bool)
	for i := range h.Columns {
		c := &h.Columns[i]
		if strings.TrimSpace(c.Name) == "" && !slices.ContainsFunc(c.Samples, func(cell string) bool { return strings.TrimSpace(cell) != "" }) && !slices.Contains(m.LeaveOut, "") && len(c.Samples) > 0 {
			m.LeaveOut = append(m.LeaveOut, "") // an empty column
		}
		if c.Skipped || strings.TrimSpace(c.Name) == "" {
			continue
		}
		field := c.Field
		if c.Odd { // a colon that belongs to the name; Art.Nr., which would nest a field without a name
			parts := strings.Split(field, ".")
			if slices.Contains(parts, "") {
				field = strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "_")
			}
			if field != "" {
				rename(c.Name, field)
			}
		}
		fields[field] = true
	}
	for _, field := range []string{order.FieldOrderNo, order.FieldTimeout} {
		if !fields[field] {
			if name := h.called(synonyms[field]); name != "" {
				rename(name, field)
				fields[field] = true
			}
		}
	}
	if !fields[order.FieldTimeout] {
		m.Set = map[string]string{order.FieldTimeout: proposedTimeout}
	}
	return m
}

// LeaveOut in place of a type leaves a column out.
const LeaveOut Type = "leave out"

// Arrange returns the shortest mapping in which the columns have these fields and types,
// by their positions. An empty field or type is what the column's name says. The other
// options are those of m.
func (h *Head) Arrange(m Mapping, fields []string, kinds []Type) Mapping {
	m.Rename, m.Types, m.LeaveOut = nil, nil, nil
	for i := range min(len(h.Columns), len(fields), len(kinds)) {
		c := &h.Columns[i]
		if kinds[i] == LeaveOut {
			m.LeaveOut = append(m.LeaveOut, strings.TrimSpace(c.Name))
		}
		if c.Skipped || kinds[i] == LeaveOut || strings.TrimSpace(c.Name) == "" && fields[i] == "" {
			continue
		}
		field, natural := cmp.Or(fields[i], c.Field), c.Type
		if field != c.Field || c.Odd {
			put(&m.Rename, c.Name, field)
			if natural = TypeString; field == order.FieldTimeout {
				natural = TypeInt
			}
		}
		if kind := cmp.Or(kinds[i], natural); kind != natural {
			put(&m.Types, field, kind)
		}
	}
	return m
}

// Arranged returns the field and the type that a mapping gives to a column; LeaveOut = it is not sent.
func (c *Column) Arranged(m Mapping) (field string, kind Type) {
	field, kind = c.Field, c.Type
	if slices.Contains(m.LeaveOut, strings.TrimSpace(c.Name)) {
		return field, LeaveOut
	}
	if to, ok := m.Rename[c.Name]; ok {
		if field, kind = to, TypeString; to == order.FieldTimeout {
			kind = TypeInt
		}
	}
	return field, cmp.Or(m.Types[field], kind)
}

// Types lists the types of columns.
func Types() []Type { return types }

// proposedTimeout is the timeout that a file without such a column gets, if its user
// agrees.
const proposedTimeout = "30"

// called returns the name of the column that has one of these names, the likeliest
// first.
func (h *Head) called(names []string) string {
	for _, name := range names {
		for _, c := range h.Columns {
			if !c.Skipped && letters(c.Name) == name {
				return c.Name
			}
		}
	}
	return ""
}

// letters returns the letters of a name in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// MissingField is the error of a header in which no column is an obligatory field.
type MissingField struct {
	// Field is order_no or timeout.
	Field string
	// Fields lists the fields that there are.
	Fields []string
}

// Error names the fields.
func (e *MissingField) Error() string {
	return fmt.Sprintf("there is no column %s among %s", e.Field, listed(e.Fields))
}
