package sandbox

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// maxDepth bounds the recursion of the reader, not what the contract allows:
// the contract states no depth.
const maxDepth = 512

// linearNames is how many names of one object are compared one by one to find
// a repeated one; beyond it a map is cheaper, and a hostile body of 100,000
// names does not cost their square.
const linearNames = 16

// document is one request body as a JavaScript server sees it: what
// JSON.stringify(JSON.parse(body)) gives, plus where its top-level members
// are. All its memory is reused from request to request, so whatever it hands
// out is only good until the next call of read.
type document struct {
	src []byte
	pos int

	out     []byte   // the canonical text
	members []member // a stack: those of the open objects; in the end the top level's
	fields  []field  // the top-level members, sorted for signing
	text    []byte   // unescaped strings that fields point into
	signed  []byte   // the string to sign
	spare   []byte   // room to put members into another order
}

// member is one name and value of an object, as positions in document.out.
type member struct {
	nameAt, nameEnd int // with its quotes
	valueAt         int
	valueEnd        int
	index           int64 // the number that the name is, where it is an array index; else -1
	nameEscaped     bool
	valueEscaped    bool
}

// field is one top-level member in the form that is signed.
type field struct{ name, value []byte }

// malformed says why a body cannot be read, and at which byte.
type malformed struct {
	at   int
	what string
}

func (e *malformed) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

func (d *document) fail(what string) error { return &malformed{at: d.pos, what: what} }

// read parses src, which must be one JSON object. What JSON readers disagree
// about (a name that occurs twice, an unpaired surrogate, __proto__, a number
// beyond binary64) is refused: a signature over it proves nothing.
// Numbers are rounded to binary64 as JavaScript does; a signature over the
// unrounded text then does not match, here as at the real API.
func (d *document) read(src []byte) error {
	d.src, d.pos = src, 0
	d.out, d.members = d.out[:0], d.members[:0]
	d.space()
	if d.peek() != '{' {
		return d.fail("the body is not a JSON object")
	}
	if err := d.object(1); err != nil {
		return err
	}
	d.space()
	if d.pos != len(d.src) {
		return d.fail("something follows the JSON object")
	}
	return nil
}

// field gives the canonical JSON text of a top-level member, nil where it is
// absent.
func (d *document) field(name string) []byte {
	for _, m := range d.members {
		if string(d.out[m.nameAt+1:m.nameEnd-1]) == name {
			return d.out[m.valueAt:m.valueEnd]
		}
	}
	return nil
}

// without gives the canonical text in two pieces from which the named
// top-level member is missing, with its comma.
func (d *document) without(name string) (before, after []byte) {
	for i, m := range d.members {
		if string(d.out[m.nameAt+1:m.nameEnd-1]) != name {
			continue
		}
		if i > 0 {
			return d.out[:m.nameAt-1], d.out[m.valueEnd:]
		}
		if len(d.members) > 1 {
			return d.out[:m.nameAt], d.out[m.valueEnd+1:]
		}
		return d.out[:m.nameAt], d.out[m.valueEnd:]
	}
	return d.out, nil
}

// stringToSign joins the top-level members, sorted by name, as the contract's
// section 5.2 says.
func (d *document) stringToSign() []byte {
	d.fields, d.text, d.signed = d.fields[:0], d.text[:0], d.signed[:0]
	for _, m := range d.members {
		name := d.out[m.nameAt+1 : m.nameEnd-1]
		if m.nameEscaped {
			name = d.unescape(name)
		}
		value := d.out[m.valueAt:m.valueEnd]
		if value[0] == '"' {
			value = value[1 : len(value)-1]
			if m.valueEscaped {
				value = d.unescape(value)
			}
		}
		d.fields = append(d.fields, field{name, value})
	}
	slices.SortFunc(d.fields, func(a, b field) int { return compareUTF16(a.name, b.name) })
	for i, f := range d.fields {
		if i > 0 {
			d.signed = append(d.signed, '&')
		}
		d.signed = append(d.signed, f.name...)
		d.signed = append(d.signed, '=')
		d.signed = append(d.signed, f.value...)
	}
	return d.signed
}

func (d *document) peek() byte {
	if d.pos < len(d.src) {
		return d.src[d.pos]
	}
	return 0
}

func (d *document) space() {
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// value reads any JSON value. Only a string can be escaped.
func (d *document) value(depth int) (escaped bool, err error) {
	switch c := d.peek(); {
	case c == '"':
		return d.str()
	case c == '{':
		return false, d.object(depth)
	case c == '[':
		return false, d.array(depth)
	case c == '-' || c >= '0' && c <= '9':
		return false, d.number()
	case c == 't':
		return false, d.literal("true")
	case c == 'f':
		return false, d.literal("false")
	case c == 'n':
		return false, d.literal("null")
	}
	return false, d.fail("no JSON value")
}

func (d *document) literal(word string) error {
	if !bytes.HasPrefix(d.src[d.pos:], []byte(word)) {
		return d.fail("no JSON value")
	}
	d.pos += len(word)
	d.out = append(d.out, word...)
	return nil
}

func (d *document) array(depth int) error {
	if depth > maxDepth {
		return d.fail("nested too deep")
	}
	d.pos++
	d.out = append(d.out, '[')
	d.space()
	if d.peek() == ']' {
		d.pos++
		d.out = append(d.out, ']')
		return nil
	}
	for {
		d.space()
		if _, err := d.value(depth + 1); err != nil {
			return err
		}
		if more, err := d.next(']'); !more {
			return err
		}
	}
}

// next reads the comma or the closing bracket after an element or member.
func (d *document) next(end byte) (more bool, err error) {
	d.space()
	switch d.peek() {
	case ',':
		d.pos++
		d.out = append(d.out, ',')
		return true, nil
	case end:
		d.pos++
		d.out = append(d.out, end)
		return false, nil
	}
	return false, d.fail("a comma or the closing bracket is missing")
}

// object reads one object. The members of a nested object leave the stack
// again; those of the top level stay for stringToSign.
func (d *document) object(depth int) error {
	if depth > maxDepth {
		return d.fail("nested too deep")
	}
	base := len(d.members)
	var seen map[string]struct{}
	d.pos++
	d.out = append(d.out, '{')
	d.space()
	if d.peek() == '}' {
		d.pos++
		d.out = append(d.out, '}')
		return nil
	}
	for more := true; more; {
		m, err := d.member(depth)
		if err != nil {
			return err
		}
		if seen, err = d.unique(base, m, seen); err != nil {
			return err
		}
		d.members = append(d.members, m)
		if more, err = d.next('}'); err != nil {
			return err
		}
	}
	d.indexesFirst(base)
	if depth > 1 {
		d.members = d.members[:base]
	}
	return nil
}

func (d *document) member(depth int) (m member, err error) {
	d.space()
	if d.peek() != '"' {
		return m, d.fail("a name is missing")
	}
	m.nameAt = len(d.out)
	if m.nameEscaped, err = d.str(); err != nil {
		return m, err
	}
	m.nameEnd = len(d.out)
	d.space()
	if d.peek() != ':' {
		return m, d.fail("a colon is missing")
	}
	d.pos++
	d.out = append(d.out, ':')
	d.space()
	m.valueAt = len(d.out)
	m.valueEscaped, err = d.value(depth + 1)
	m.valueEnd = len(d.out)
	m.index = arrayIndex(d.out[m.nameAt+1 : m.nameEnd-1])
	return m, err
}

// unique refuses a name that the object has already. Canonical names are
// equal exactly if the names are, so they need not be unescaped.
func (d *document) unique(base int, m member, seen map[string]struct{}) (map[string]struct{}, error) {
	name := d.out[m.nameAt:m.nameEnd]
	if string(name) == `"__proto__"` {
		return seen, d.fail("the name __proto__ is not allowed")
	}
	others := d.members[base:]
	if len(others) < linearNames {
		for _, o := range others {
			if bytes.Equal(name, d.out[o.nameAt:o.nameEnd]) {
				return seen, d.fail("a name occurs twice")
			}
		}
		return seen, nil
	}
	if seen == nil {
		seen = make(map[string]struct{}, 2*linearNames)
		for _, o := range others {
			seen[string(d.out[o.nameAt:o.nameEnd])] = struct{}{}
		}
	}
	if _, twice := seen[string(name)]; twice {
		return seen, d.fail("a name occurs twice")
	}
	seen[string(name)] = struct{}{}
	return seen, nil
}

// indexesFirst puts the members from base on into the order in which a
// JavaScript object lists its properties: array indexes ascending, then the
// others as they came. Their text is at the end of out, in braces.
func (d *document) indexesFirst(base int) {
	members := d.members[base:]
	byIndex := func(a, b member) int {
		if a.index >= 0 && b.index >= 0 {
			return cmp.Compare(a.index, b.index)
		}
		// -1, "not an index", comes after every index.
		return cmp.Compare(uint64(a.index), uint64(b.index))
	}
	if slices.IsSortedFunc(members, byIndex) {
		return
	}
	start := members[0].nameAt
	d.spare = append(d.spare[:0], d.out[start:]...)
	d.out = d.out[:start]
	slices.SortStableFunc(members, byIndex)
	for i := range members {
		m := &members[i]
		if i > 0 {
			d.out = append(d.out, ',')
		}
		shift := len(d.out) - m.nameAt
		d.out = append(d.out, d.spare[m.nameAt-start:m.valueEnd-start]...)
		m.nameAt, m.nameEnd, m.valueAt, m.valueEnd = m.nameAt+shift, m.nameEnd+shift, m.valueAt+shift, m.valueEnd+shift
	}
	d.out = append(d.out, '}')
}

// arrayIndex tells whether JavaScript treats the name as an array index: the
// decimal form of 0 to 2^32-2.
func arrayIndex(name []byte) int64 {
	if len(name) == 0 || len(name) > 10 || name[0] < '0' || name[0] > '9' || name[0] == '0' && len(name) > 1 {
		return -1
	}
	n, err := strconv.ParseUint(string(name), 10, 32)
	if err != nil || n == 1<<32-1 {
		return -1
	}
	return int64(n)
}
