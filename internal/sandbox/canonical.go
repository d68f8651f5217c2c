package sandbox

import (
	"bytes"
	"fmt"
	"slices"
)

// maxDepth bounds the recursion of the reader, not what the contract allows:
// the contract states no depth.
const maxDepth = 512

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
