package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/shopspring/decimal"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/textfile"
)

// Trailer says how the last record of a file is known, which is no order, and where its control totals stand. A file
// that it describes must end with exactly one. Without Rows and Sums, it only shows that the file is whole.
type Trailer struct {
	// Value is what the first cell of the row holds, or in NDJSON what Member holds.
	Value string `json:"value" yaml:"value"`
	// Member is the member that marks the trailer of NDJSON; dots name one inside an object.
	Member string `json:"member,omitempty" yaml:"member,omitempty"`
	// Rows is where the number of orders stands: a column counted from 1, or a member of NDJSON. "" = nowhere.
	Rows string `json:"rows,omitempty" yaml:"rows,omitempty"`
	// Sums maps a field's name in JSON to where its sum stands.
	Sums map[string]string `json:"sums,omitempty" yaml:"sums,omitempty"`
}

// parseTrailer reads a trailer as a mapping file has it, in one line: {value: T, rows: 2, sums: {amount: 3}}.
func parseTrailer(text string) (*Trailer, error) {
	t := new(Trailer)
	if err := textfile.Unmarshal([]byte(text), t); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(yaml.FormatError(err, false, false)), "\n")
		return nil, fmt.Errorf("%q is not {value: T, rows: 2, sums: {amount: 3}}: %s", clip(text), first)
	}
	return t, t.validate()
}

// String returns the trailer as [parseTrailer] reads it; "" = there is none.
func (t *Trailer) String() string {
	if t == nil {
		return ""
	}
	text, _ := json.Marshal(t) // nothing in it can fail
	return string(text)
}

func (t *Trailer) validate() error {
	if t != nil && strings.TrimSpace(t.Value) == "" {
		return errors.New("trailer: value is missing: say what the trailer's first cell holds, as in value: T (in NDJSON, what the trailer's member holds)")
	}
	return nil
}

// fits returns what is wrong with the trailer for a file of this format.
func (t *Trailer) fits(format Format) error {
	switch {
	case t == nil:
		return nil
	case format == FormatNDJSON && t.Member == "":
		return fmt.Errorf("trailer: member is missing: name the member of NDJSON that is %q in the trailer", clip(t.Value))
	case format == FormatNDJSON:
		return nil
	case t.Member != "":
		return fmt.Errorf("trailer: member %q is for NDJSON; a row is a trailer if its first cell is %q", clip(t.Member), clip(t.Value))
	}
	for name, at := range t.places {
		if n, err := strconv.Atoi(at); err != nil || n < 1 {
			return fmt.Errorf("trailer: %s: %q is not the number of a column from 1 on", clip(name), clip(at))
		}
	}
	return nil
}

// places yields what the trailer tells, by its name in the mapping, and where.
func (t *Trailer) places(yield func(name, at string) bool) {
	if t.Rows != "" && !yield("rows", t.Rows) {
		return
	}
	for _, field := range slices.Sorted(maps.Keys(t.Sums)) {
		if !yield("sums."+field, t.Sums[field]) {
			return
		}
	}
}

// what describes how the trailer is known.
func (t *Trailer) what() string {
	if t.Member != "" {
		return fmt.Sprintf("a line whose %s is %q", clip(t.Member), clip(t.Value))
	}
	return fmt.Sprintf("a row whose first cell is %q", clip(t.Value))
}

// is reports whether a record is the trailer.
func (t *Trailer) is(cells []string) bool {
	if t.Member == "" {
		return len(cells) > 0 && strings.TrimSpace(cells[0]) == strings.TrimSpace(t.Value)
	}
	if !strings.Contains(cells[0], t.Value) && !strings.Contains(cells[0], `\`) { // most lines need no parser
		return false
	}
	value, err := within(cells[0], strings.Split(t.Member, "."))
	if err != nil {
		return false
	}
	var text string
	if json.Unmarshal(value, &text) != nil { // a number, true or false
		text = string(bytes.TrimSpace(value))
	}
	return text == t.Value
}

// foundTrailer is the trailer of a file, and the totals that it has.
type foundTrailer struct {
	line int
	Totals
}

// next reads one row that is no trailer, as read does. At the end of the file it fails unless the trailer that the mapping
// describes was the last row.
func (t *table) next() (record, error) {
	for {
		rec, err := t.read()
		unit := t.format.Unit()
		switch {
		case t.trailer == nil:
			return rec, err
		case errors.Is(err, io.EOF) && t.found == nil:
			return rec, t.wrongTrailer(max(t.last, t.named, 1), 0, "the file ends without its trailer, %s, and may have been cut off; get the whole file, or correct trailer in the mapping", t.trailer.what())
		case err != nil:
			return rec, err
		case t.found == nil && !t.trailer.is(rec.cells):
			return rec, nil
		case t.found == nil:
			if t.found, err = t.readTrailer(rec); err != nil {
				return record{}, err
			}
		case t.trailer.is(rec.cells):
			return record{}, t.wrongTrailer(rec.line, 0, "a second trailer, the first is in %s %d; a file ends with one: if it is several files, import each by itself", unit, t.found.line)
		default:
			return record{}, t.wrongTrailer(rec.line, 0, "a row behind the trailer in %s %d, which must be the last; get the file again, or correct trailer in the mapping", unit, t.found.line)
		}
	}
}

func (t *table) wrongTrailer(line, column int, format string, args ...any) error {
	return &RowError{File: t.file, Sheet: t.sheet, Line: line, Column: column, Code: CodeTrailer, Err: fmt.Errorf(format, args...)}
}

// readTrailer reads the totals of a trailer.
func (t *table) readTrailer(rec record) (*foundTrailer, error) {
	found := &foundTrailer{line: rec.line}
	for name, at := range t.trailer.places {
		text, column := "", 0
		var err error
		if t.format == FormatNDJSON {
			text, err = member(rec.cells[0], strings.Split(at, "."))
		} else if column, _ = strconv.Atoi(at); column <= len(rec.cells) { // fits has read it
			text = strings.TrimSpace(rec.cells[column-1])
		}
		field, isSum := strings.CutPrefix(name, "sums.")
		total, ok := t.total(field, text)
		wanted := "a number such as 1234.56"
		if !isSum {
			wanted = "a number of orders"
			ok = ok && total.IsInteger() && total.Sign() >= 0 && total.BigInt().IsInt64()
		}
		switch {
		case err != nil:
			return nil, t.wrongTrailer(rec.line, column, "the trailer: %s: %w; correct the file, or trailer in the mapping", clip(name), err)
		case !ok:
			return nil, t.wrongTrailer(rec.line, column, "the trailer: %s: %q in %s is not %s; correct the file, or trailer in the mapping", clip(name), clip(text), t.placeOf(at), wanted)
		case isSum:
			put(&found.Sums, field, total)
		default:
			n := int(total.IntPart())
			found.Rows = &n
		}
	}
	return found, nil
}

// placeOf names a place of the trailer.
func (t *table) placeOf(at string) string {
	if t.format == FormatNDJSON {
		return "member " + clip(at)
	}
	return "column " + at
}

// paddedNumber matches a number's minus, and the rest without the zeros in front.
var paddedNumber = regexp.MustCompile(`^(?:\+|(-?))0*([0-9].*)$`)

// total reads a number of the trailer, which may have zeros in front. The sum of a field has the decimal sign, and the
// thousands, that the mapping accepts in its column.
func (t *table) total(field, text string) (decimal.Decimal, bool) {
	c := new(column)
	if t.layout != nil {
		if at := t.layout.find(field); at > 0 {
			c = &t.layout.columns[at-1]
		}
	}
	parts := paddedNumber.FindStringSubmatch(text)
	if parts == nil {
		return decimal.Decimal{}, false
	}
	r := readNumber(parts[2], c.comma())
	if !r.ok() || r.grouped && !c.accept.has(CodeThousands) {
		return decimal.Decimal{}, false
	}
	return imports.Number(parts[1] + r.text)
}
