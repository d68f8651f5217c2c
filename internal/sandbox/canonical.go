package sandbox

import (
	"bytes"
	"fmt"
	"slices"
)

// maxDepth bounds the recursion of the parser. The contract states no limit.
const maxDepth = 512

// document is a request body as a JavaScript server sees it: the result of
// JSON.stringify(JSON.parse(body)) and the positions of the top-level members. It
// reuses its memory. Its results are valid until the next call of read.
type document struct {
	src []byte
	pos int

	out     []byte   // the canonical text
	members []member // stack of the members of open objects; finally those of the top level
	fields  []field  // the top-level members, sorted for signing
	text    []byte   // unescaped strings that fields point into
	signed  []byte   // the string to sign
	spare   []byte   // buffer for sorting members
}

// member is one name and value of an object, as positions in document.out.
type member struct {
	nameAt, nameEnd int // with its quotes
	valueAt         int
	valueEnd        int
	index           int64 // the name as an array index, or -1
	nameEscaped     bool
	valueEscaped    bool
}

// field is one top-level member in the form that is signed.
type field struct{ name, value []byte }

// malformed says why and at which byte a body cannot be parsed.
type malformed struct {
	at   int
	what string
}

func (e *malformed) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

func (d *document) fail(what string) error { return &malformed{at: d.pos, what: what} }

// read parses src, which must be one JSON object. It refuses what JSON parsers treat
// differently: a repeated name, an unpaired surrogate, __proto__, a number beyond
// binary64. A signature over such a body proves nothing.
//
// read rounds numbers to binary64 as JavaScript does. A signature over the unrounded
// text does not match then, here as at the real API.
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

// field returns the canonical JSON text of a top-level member, or nil if it is absent.
func (d *document) field(name string) []byte {
	for _, m := range d.members {
		if string(d.out[m.nameAt+1:m.nameEnd-1]) == name {
			return d.out[m.valueAt:m.valueEnd]
		}
	}
	return nil
}

// without returns the canonical text before and after a top-level member, without
// the member and its comma.
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

// stringToSign returns the top-level members, sorted by name and joined (contract
// section 5.2).
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

// value reads any JSON value. escaped is true only for strings.
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

// next reads the comma or the closing bracket after an element or a member.
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
