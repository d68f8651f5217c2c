package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"orderpost/internal/order"
)

// Column sums up one field of the orders, by its path, as in order.amount.
type Column struct {
	Name string
	// Sum is exact, and so is Unsigned, which adds up the numbers without their signs. Numbers
	// counts the orders that have one, Others those that have none, or one of more than 100 digits.
	Sum, Unsigned   decimal.Decimal
	Numbers, Others int
	last            int // the order counted last: a.b may be a field, and b a field of a
	// Text says that the numbers are texts, and amounts: some has decimal places, and no
	// order has another text there.
	Text    bool
	Largest []AssessedRow `json:",omitempty"`
}

// Limits of the sums.
const (
	mostColumns = 40
	mostTexts   = 1000
	mostDigits  = 100
)

// Sums adds up the numbers in orders: those of each field but the timeout, and the texts of fields that hold amounts.
type Sums struct {
	named   []string
	n       int
	columns map[string]*Column
	texts   map[string]*Column // nil = not all are numbers
	more    bool
}

// NewSums returns sums of nothing. named are the columns that somebody names: theirs are added up even if they are the
// timeout, or texts.
func NewSums(named ...string) *Sums {
	return &Sums{named: named, columns: make(map[string]*Column), texts: make(map[string]*Column)}
}

// Add adds the numbers of an order. row shows it if it is among the largest by a column; nil = nobody wants to see it.
func (s *Sums) Add(body []byte, row func() AssessedRow) {
	s.n++
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&fields) == nil { // else it is no order
		s.fields("", fields, row)
	}
}

// Columns returns the fields that have numbers, by name, as fields of so many orders. more says that there are others.
func (s *Sums) Columns(orders int) (columns []*Column, more bool) {
	for _, name := range slices.Sorted(maps.Keys(s.texts)) {
		switch c := s.texts[name]; {
		case c == nil || !c.Text || s.columns[name] != nil:
		case len(s.columns) < mostColumns:
			s.columns[name] = c
		default:
			s.more = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.columns)) {
		c := s.columns[name]
		c.Others = orders - c.Numbers
		columns = append(columns, c)
	}
	return columns, s.more
}

// fields adds the numbers of an object to their columns.
func (s *Sums) fields(prefix string, object map[string]any, row func() AssessedRow) {
	for name, value := range object {
		name = prefix + name
		switch v := value.(type) {
		case map[string]any:
			s.fields(name+".", v, row)
		case json.Number:
			if name != order.FieldTimeout || slices.Contains(s.named, name) {
				s.number(s.columns, mostColumns, name, v.String(), row)
			}
		case string:
			if slices.Contains(s.named, name) {
				s.number(s.columns, mostColumns, name, v, row)
			} else if name != order.FieldOrderNo && v != "" {
				s.text(name, v, row)
			}
		}
	}
}

// amount matches the texts that may be amounts. A number with a zero in front is a code.
var amount = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// text adds a text to its column, which has amounts unless one text is none.
func (s *Sums) text(name, text string, row func() AssessedRow) {
	switch c, known := s.texts[name]; {
	case known && c == nil:
	case !amount.MatchString(text) || len(text) > mostDigits:
		if known || len(s.texts) < mostTexts {
			s.texts[name] = nil
		}
	default:
		if s.number(s.texts, mostTexts, name, text, row); strings.Contains(text, ".") && s.texts[name] != nil {
			s.texts[name].Text = true
		}
	}
}

func (s *Sums) number(in map[string]*Column, most int, name, text string, row func() AssessedRow) {
	c := in[name]
	if c == nil {
		if len(in) >= most && !slices.Contains(s.named, name) {
			s.more = true
			return
		}
		c = &Column{Name: name}
		in[name] = c
	}
	value, ok := Number(text)
	if !ok {
		return
	}
	if c.last != s.n {
		c.Numbers, c.last = c.Numbers+1, s.n
	}
	c.Sum, c.Unsigned = c.Sum.Add(value), c.Unsigned.Add(value.Abs())
	if row == nil {
		return
	}
	at, _ := slices.BinarySearchFunc(c.Largest, value, func(r AssessedRow, v decimal.Decimal) int {
		return cmp.Or(v.Cmp(r.Value), -1) // behind those that are as large
	})
	if at < shownRows {
		r := row()
		r.Value = value
		c.Largest = slices.Insert(c.Largest, at, r)
		c.Largest = c.Largest[:min(len(c.Largest), shownRows)]
	}
}

// Number reads a number of at most 100 digits, with which one can calculate exactly in bounded memory.
func Number(text string) (d decimal.Decimal, ok bool) {
	if len(text) > mostDigits {
		return d, false
	}
	d, err := decimal.NewFromString(text)
	return d, err == nil && d.Exponent() <= mostDigits && d.Exponent() >= -mostDigits
}
