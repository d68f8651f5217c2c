package importer

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/order"
)

// rejectColumns follow the original columns in a rejects file, letterColumns in saved dead letters.
var (
	rejectColumns = []string{"_row", "_column", "_code", "_message"}
	letterColumns = []string{resultColumns[0], "_reason"}
)

// added lists what the files of ours add that can be imported again.
var added = [][]string{resultColumns, rejectColumns, letterColumns}

// ownColumns returns the columns of a header that a file of ours has added. An import
// skips them, so such a file can be imported unchanged. It is one if it has all of them.
func ownColumns(header []string) (own []string) {
	for _, names := range added {
		if hasAll(header, names) {
			own = append(own, names...)
		}
	}
	if hasAll(header, resultColumns) {
		own = append(own, editedColumn)
	}
	return own
}

func hasAll(header, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(header, name) })
}

// checkOwn refuses a column that is named like one of a rejects or results file in a file that is
// none: nobody can tell whose it is.
func checkOwn(name string) error {
	for _, names := range added {
		if slices.Contains(names, name) {
			return advise(fmt.Sprintf("rejects and results files add a column %s, which an import skips, and this file does not have all that they add (%s); give the column another name, or remove it", name, strings.Join(names, ", ")),
				" ("+nameFlag("--rename", name, strings.TrimPrefix(name, "_"))+")")
		}
	}
	return nil
}

// column is one column of the file.
type column struct {
	header string
	field  string // dotted name in JSON
	typ    Type
	skip   bool
	// leftOut says that the mapping leaves the column out. skip is true, too.
	leftOut bool
	accept  codes
}

// codes are the questions that the mapping answers with yes.
type codes []Code

func (c codes) has(code Code) bool { return slices.Contains(c, code) }

// node is a member of the JSON object to write: a column's cell, a constant or a
// nested object.
type node struct {
	key      []byte // quoted name with its colon
	column   int    // index of the column; -1 for constants and objects
	constant []byte // JSON text
	members  []*node
	index    map[string]*node // members by name
}

// layout maps the columns of a file to a body.
type layout struct {
	columns []column
	root    node
	orderNo int // index of its column; -1 if a template makes the order numbers
	// notBefore is the position of the column _not_before, counted from 1; 0 = there is
	// none.
	notBefore int
	empty     string
	// numbers lists the columns whose long numbers a spreadsheet may have rounded.
	numbers []int
	// sameWarnings says that all rows have the same warnings, because all cells are
	// text or small numbers.
	sameWarnings bool
}

// newLayout reads a header. It returns a *columnError for a mistake in one column.
func newLayout(header []string, m Mapping) (*layout, error) {
	l := &layout{orderNo: -1, empty: m.Empty, sameWarnings: m.Empty == "" || m.Empty == EmptyString}
	seen := make(map[string]int)
	own := ownColumns(header)
	for i, name := range header {
		c, err := readColumn(name, own, m)
		if err == nil {
			err = l.check(i, c, seen)
		}
		if err == nil && !c.skip {
			err = l.place(c.field, &node{column: i})
		}
		if err != nil {
			return nil, &columnError{i + 1, err}
		}
		if !c.skip && c.typ != TypeBool && c.typ != TypeJSON && !c.accept.has(CodeRounded) {
			l.numbers = append(l.numbers, i)
		}
		l.columns = append(l.columns, c)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Rename)) {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("rename: there is no column %q among %s", clip(name), listed(header))
		}
	}
	for _, name := range m.LeaveOut {
		if name != "" && !slices.ContainsFunc(header, func(h string) bool { return strings.TrimSpace(h) == name }) {
			return nil, fmt.Errorf("leave_out: there is no column %q among %s", clip(name), listed(header))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Types)) {
		if l.find(name) == 0 {
			return nil, fmt.Errorf("type: there is no field %q among %s", clip(name), listed(l.fields()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Accept)) {
		if l.find(name) == 0 {
			return nil, fmt.Errorf("accept: there is no field %q among %s", clip(name), listed(l.fields()))
		}
		if err := l.columns[l.find(name)-1].checkAccept(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Set)) {
		if err := l.setConstant(name, m.Set[name]); err != nil {
			return nil, fmt.Errorf("set: %w", err)
		}
	}
	if err := l.checkOrderNo(m.OrderNoTemplate); err != nil {
		return nil, err
	}
	return l, l.checkTimeout()
}

type columnError struct {
	column int
	err    error
}

func (e *columnError) Error() string { return e.err.Error() }
func (e *columnError) Unwrap() error { return e.err }

// readColumn reads a column's name. own are the columns that a rejects or results file added.
func readColumn(header string, own []string, m Mapping) (column, error) {
	c := column{header: header, typ: TypeString}
	var given Type
	to, renamed := m.Rename[header]
	switch {
	case slices.Contains(m.LeaveOut, strings.TrimSpace(header)):
		c.skip, c.leftOut = true, true
		return c, nil
	case header == notBeforeColumn, !renamed && slices.Contains(own, header):
		c.skip = true
		return c, nil
	case renamed:
		c.field = to
	default:
		if err := checkOwn(header); err != nil {
			c.field = header
			return c, err
		}
		var err error
		if c.field, given, err = splitType(header); err != nil {
			return c, &advised{fmt.Errorf("%w; if the colon belongs to the name, give the column another one", err), " (--rename)"}
		}
		if to, ok := m.Rename[c.field]; ok {
			return c, fmt.Errorf("rename: write the column's whole name, %q, to call it %q", clip(header), clip(to))
		}
	}
	switch t, ok := m.Types[c.field]; {
	case ok:
		c.typ = t
	case given != "":
		c.typ = given
	case c.field == order.FieldTimeout:
		c.typ = TypeInt
	}
	c.accept = m.Accept[c.field]
	return c, nil
}

func (l *layout) check(i int, c column, seen map[string]int) error {
	if c.leftOut {
		return nil
	}
	first, twice := seen[c.header]
	seen[c.header] = i
	switch {
	case strings.TrimSpace(c.header) == "":
		return advise("the column has no name; give it one or remove it", " (--leave-out '' leaves out what has none)")
	case strings.TrimSpace(c.header) != c.header:
		return fmt.Errorf("the column's name %q is padded with spaces; remove them", clip(c.header))
	case twice:
		return fmt.Errorf("the name %q is taken by column %d already", clip(c.header), first+1)
	case c.header == notBeforeColumn:
		l.notBefore = i + 1
		return nil
	case c.skip:
		return nil
	case c.field == order.FieldTimestamp:
		return errors.New("a timestamp column is refused: the worker stamps each attempt with the time at which it is sent; remove the column")
	case c.field == order.FieldOrderNo && c.typ != TypeString:
		return fmt.Errorf("order_no is always text, not %s; leading zeros would be lost", c.typ)
	case c.field == order.FieldOrderNo:
		l.orderNo = i
	}
	l.sameWarnings = l.sameWarnings && c.typ != TypeNumber && c.typ != TypeJSON && !strings.Contains(c.field, ".")
	return nil
}

// place inserts a member at its dotted name.
func (l *layout) place(field string, leaf *node) error {
	parent := &l.root
	parts := strings.Split(field, ".")
	if len(parts) > order.MaxDepth {
		return fmt.Errorf("the name %q nests %d objects, at most %d are possible", clip(field), len(parts), order.MaxDepth)
	}
	for i, part := range parts {
		if part == "" {
			return fmt.Errorf("the name %q has an empty part; dots nest objects", clip(field))
		}
		known := parent.index[part]
		last := i == len(parts)-1
		switch {
		case known != nil && (last || known.members == nil):
			return fmt.Errorf("the field %s is there twice", clip(strings.Join(parts[:i+1], ".")))
		case known != nil:
			parent = known
			continue
		}
		n := &node{column: -1}
		if last {
			n = leaf
		}
		key, err := jsontext.AppendQuote(nil, part)
		if err != nil {
			return advise(fmt.Sprintf("the name %q is not valid UTF-8; save the file as UTF-8, or name its encoding", clip(field)), " (--encoding)")
		}
		n.key = append(key, ':')
		if parent.index == nil {
			parent.index = make(map[string]*node)
		}
		parent.members, parent.index[part] = append(parent.members, n), n
		parent = n
	}
	return nil
}

func (l *layout) setConstant(spec, value string) error {
	name, t, err := splitType(spec)
	if err != nil {
		return err
	}
	if t == "" {
		t = TypeString
		if name == order.FieldTimeout {
			t = TypeInt
		}
	}
	switch name {
	case order.FieldTimestamp:
		return errors.New("timestamp is the worker's: it stamps each attempt with the time at which it is sent")
	case order.FieldOrderNo:
		return advise("order_no must differ from row to row; have the numbers made instead", " (--order-no-template)")
	}
	text, err := appendCell(nil, value, t)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.sameWarnings = l.sameWarnings && (t == TypeString || t == TypeInt)
	return l.place(name, &node{column: -1, constant: text})
}

func (l *layout) checkOrderNo(template string) error {
	switch {
	case template != "" && l.orderNo >= 0:
		return fmt.Errorf("order_no template: the file has a column order_no already (column %d)", l.orderNo+1)
	case template != "":
		return l.place(order.FieldOrderNo, &node{column: madeOrderNo})
	case l.orderNo < 0:
		return &advised{&MissingField{order.FieldOrderNo, l.fields()}, "; " + l.renameHint(order.FieldOrderNo) + ", or --order-no-template makes numbers, or --header-row N reads the names from row N"}
	}
	return nil
}

// checkTimeout reports a missing timeout column. Otherwise every row would fail.
func (l *layout) checkTimeout() error {
	if l.root.index[order.FieldTimeout] != nil {
		return nil
	}
	return &advised{&MissingField{order.FieldTimeout, l.fields()}, "; " + l.renameHint(order.FieldTimeout) + ", or --set timeout=" + proposedTimeout + " gives every order the same one"}
}

// renameHint proposes a --rename flag for a missing field. It names a column with a
// similar name if there is one.
func (l *layout) renameHint(field string) string {
	for _, c := range l.columns {
		if flag := nameFlag("--rename", c.header, field); flag != "" && !c.skip && letters(c.header) == letters(field) {
			return flag + " takes that one"
		}
	}
	return "--rename COLUMN=" + field + " says which one it is"
}

// renameFlags returns the flags of enqueue that give the column another name and keep its
// type.
func (c *column) renameFlags() string {
	flags := nameFlag("--rename", c.header, "NEW_NAME")
	if flags != "" && c.typ != TypeString {
		flags += " --type NEW_NAME=" + string(c.typ)
	}
	return flags
}

// nameFlag returns a flag with NAME=VALUE as a shell takes it. It returns "" for a name that
// no flag can have, because its name ends at the first =, and for one that nobody can read.
func nameFlag(flag, name, value string) string {
	if strings.Contains(name, "=") || len(name) > maxQuoted {
		return ""
	}
	return flag + " " + shellWord(name+"="+value)
}

// listed joins names for a message: at most 20, and about 400 bytes.
func listed(names []string) string {
	const most, room = 20, 400
	var b strings.Builder
	for i, name := range names {
		if i == most || b.Len() > room {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(name))
	}
	return b.String()
}

// madeOrderNo is the node.column of an order number that the template makes.
const madeOrderNo = -2

func (l *layout) fields() []string {
	var names []string
	for _, c := range l.columns {
		if !c.skip {
			names = append(names, c.field)
		}
	}
	return names
}

// find returns the position of a field's column, counted from 1, or 0 if there is
// none.
func (l *layout) find(field string) int {
	return 1 + slices.IndexFunc(l.columns, func(c column) bool { return !c.skip && c.field == field })
}

// quotedName matches a name that package order quotes in a path.
var quotedName = regexp.MustCompile(`\["(?:[^"\\]|\\.)*"\]`)

// fieldOf returns the dotted name of a path of package order: ship.to place for
// ship["to place"].
func fieldOf(path string) string {
	return strings.TrimPrefix(quotedName.ReplaceAllStringFunc(path, func(part string) string {
		name, _ := strconv.Unquote(part[1 : len(part)-1]) // package order quoted it
		return "." + name
	}), ".")
}

// columnOf returns the column of a path, or the first column inside the object that the
// path names, or nil.
func (l *layout) columnOf(path string) *column {
	field := fieldOf(path)
	for i := range l.columns {
		if c := &l.columns[i]; !c.skip && (c.field == field || strings.HasPrefix(c.field, field+".")) {
			return c
		}
	}
	return nil
}

// findAround returns the column of a path, or of the nearest value around it; 0 = there is
// none.
func (l *layout) findAround(path string) int {
	for path = fieldOf(path); path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if column := l.find(path); column > 0 {
			return column
		}
	}
	return 0
}
