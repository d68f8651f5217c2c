package sign

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/order"
)

// reading is a way to read contract section 5.2 when building the string to sign.
// The zero value is ours. The others are mistakes and interpretations known from
// other implementations.
type reading struct {
	byBytes    bool // names sorted by UTF-8 bytes, not by UTF-16 code units
	sortNested bool // names sorted below the top level, too
	dropNull   dropNull
	escapeHTML bool // < > & U+2028 U+2029 escaped in JSON text, as some encoders do
	unstamped  bool // no timestamp
}

type dropNull uint8

const (
	keepNull        dropNull = iota
	dropTopNull              // top-level null fields left out
	dropEveryNull            // null members left out at any depth
	dropNullChoices = 3
)

// node is a parsed JSON value.
type node struct {
	kind    jsontext.Kind
	text    string // canonical JSON of a scalar
	members []member
	items   []node
}

// member is a member of an object. name is unescaped.
type member struct {
	name  string
	value node
}

// readTree parses a canonical body. The body is valid, so the tokenizer returns no
// errors.
func readTree(body []byte) node {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	return readNode(dec)
}

func readNode(dec *jsontext.Decoder) node {
	n := node{kind: dec.PeekKind()}
	switch n.kind {
	case '{':
		_, _ = dec.ReadToken()
		for dec.PeekKind() == '"' {
			name, _ := dec.ReadToken()
			m := member{name: name.String()}
			m.value = readNode(dec)
			n.members = append(n.members, m)
		}
		_, _ = dec.ReadToken()
	case '[':
		_, _ = dec.ReadToken()
		for kind := dec.PeekKind(); kind != ']' && kind != 0; kind = dec.PeekKind() {
			n.items = append(n.items, readNode(dec))
		}
		_, _ = dec.ReadToken()
	default:
		raw, _ := dec.ReadValue()
		n.text = string(raw)
	}
	return n
}

// stringToSign returns the string to sign of a body in this reading.
func (r reading) stringToSign(body node, timestamp string) string {
	fields := slices.Clone(body.members)
	if !r.unstamped {
		fields = append(fields, member{order.FieldTimestamp, node{kind: '0', text: timestamp}})
	}
	slices.SortFunc(fields, r.compare)
	var b strings.Builder
	for _, field := range fields {
		if field.value.kind == 'n' && r.dropNull != keepNull {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(field.name + "=")
		if field.value.kind == '"' {
			text, _ := jsontext.AppendUnquote(nil, field.value.text) // canonical, hence valid
			b.Write(text)
		} else {
			r.write(&b, field.value)
		}
	}
	return b.String()
}

func (r reading) compare(a, b member) int {
	if r.byBytes {
		return cmp.Compare(a.name, b.name)
	}
	return order.CompareUTF16(a.name, b.name)
}

// write writes a value as compact JSON.
func (r reading) write(b *strings.Builder, n node) {
	switch n.kind {
	case '{':
		r.writeObject(b, n.members)
	case '[':
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			r.write(b, item)
		}
		b.WriteByte(']')
	default:
		b.WriteString(r.escape(n.text))
	}
}

func (r reading) writeObject(b *strings.Builder, members []member) {
	if r.sortNested {
		members = slices.Clone(members)
		slices.SortFunc(members, r.compare)
	}
	b.WriteByte('{')
	first := true
	for _, m := range members {
		if m.value.kind == 'n' && r.dropNull == dropEveryNull {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		name, _ := jsontext.AppendQuote(nil, m.name) // it came from valid JSON
		b.WriteString(r.escape(string(name)) + ":")
		r.write(b, m.value)
	}
	b.WriteByte('}')
}

var htmlEscapes = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "\u2028", `\u2028`, "\u2029", `\u2029`)

func (r reading) escape(text string) string {
	if !r.escapeHTML {
		return text
	}
	return htmlEscapes.Replace(text)
}
