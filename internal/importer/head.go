package importer

import (
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
	Format Format
	// Encoding is known for the beginning only: the first character beyond ASCII may
	// come later.
	Encoding  string
	Guessed   bool
	Delimiter string
	Columns   []Column
	// Lines are the first lines of NDJSON, clipped.
	Lines []string

	t *table
}

// Column is one column of a CSV file.
type Column struct {
	Name string
	// Skipped says that a results or rejects file added the column.
	Skipped bool
	// Samples are the first cells, clipped.
	Samples []string
}

// ReadHead reads the header and the first rows of a file as an import with these
// options would, whatever the mapping is.
func ReadHead(content io.Reader, o Options, rows int) (*Head, error) {
	unpacked, closeContent, err := Unpack(o.File, content)
	defer closeContent()
	if err != nil {
		return nil, err
	}
	t, err := readTable(unpacked, &o)
	if err != nil {
		return nil, err
	}
	h := &Head{Format: t.format, t: t}
	for _, name := range t.header {
		h.Columns = append(h.Columns, Column{Name: name, Skipped: slices.Contains(ownColumns, name)})
	}
	if t.format == FormatCSV {
		h.Delimiter = string(t.dialect.comma)
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
	h.Encoding, h.Guessed = t.text.encoding()
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
	if h.Format != FormatCSV {
		return m
	}
	rename := func(from, to string) {
		if m.Rename == nil {
			m.Rename = make(map[string]string)
		}
		m.Rename[from] = to
	}
	fields := make(map[string]bool)
	for i := range h.Columns {
		c := &h.Columns[i]
		if c.Skipped {
			continue
		}
		field, _, err := splitType(c.Name)
		if err != nil { // the colon belongs to the name
			field = c.Name
			rename(c.Name, field)
		}
		if parts := strings.Split(field, "."); slices.Contains(parts, "") { // Art.Nr. would nest a field without a name
			field = strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "_")
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
	advice string
}

// Error names the fields and the flags that help.
func (e *MissingField) Error() string {
	return fmt.Sprintf("there is no column %s among %s; %s", e.Field, listed(e.Fields), e.advice)
}
