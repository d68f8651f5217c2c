package order

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a body (docs/signing.md).
const (
	// MaxBody is the largest body, in bytes.
	MaxBody = 1 << 20
	// MaxDepth is the deepest nesting. The top object has depth 1.
	MaxDepth = 64
	// MaxOrderNo is the longest order_no, in bytes of UTF-8.
	MaxOrderNo = 255
)

// DefaultRequired lists the fields that an order must have unless the operator
// configures others (contract section 4). The signer adds the timestamp.
func DefaultRequired() []string { return []string{FieldOrderNo, FieldTimeout} }

// Options are the settings of [ParseWith].
type Options struct {
	// Required names the top-level fields that must be present and not null. nil
	// means [DefaultRequired]. order_no is always required, because records are
	// filed under it.
	Required []string
}

// defaultRequired saves the allocation of DefaultRequired for each order.
var defaultRequired = DefaultRequired()

// Parse parses an intent's body by the rules of docs/signing.md and checks the fields that
// every order needs. Its error is always an [*Error] and means that the order can
// never be sent. Parse neither keeps nor changes the body.
func Parse(body []byte) (*Order, error) { return ParseWith(body, Options{}) }

// ParseWith is [Parse] with other required fields.
func ParseWith(body []byte, opt Options) (*Order, error) {
	required := opt.Required
	if required == nil {
		required = defaultRequired
	}
	return parse(body, func(p *parser) *Error { return p.checkFields(required) })
}

// Canonicalize parses a body by the signing rules alone and requires no field. It
// is for verifying signatures.
func Canonicalize(body []byte) (*Order, error) {
	return parse(body, func(*parser) *Error { return nil })
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

func parse(body []byte, check func(*parser) *Error) (*Order, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	p := parsers.Get().(*parser)
	defer p.release()
	p.reset(body)
	if err := p.document(); err != nil {
		return nil, err
	}
	if len(p.out) > MaxBody { // 1e20 has 21 digits in JavaScript
		return nil, refuse(CodeTooLarge, "", fmt.Sprintf("%d bytes, as JavaScript writes it,", len(p.out)))
	}
	if err := check(p); err != nil {
		return nil, err
	}
	return p.order(), nil
}

// checkText checks size and encoding of the body (rule 1). The tokenizer finds
// invalid UTF-8 only inside strings.
func checkText(body []byte) error {
	if len(body) > MaxBody {
		return refuse(CodeTooLarge, "", fmt.Sprintf("%d bytes", len(body)))
	}
	if utf8.Valid(body) {
		return nil
	}
	for at := 0; ; {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size <= 1 {
			return refuse(CodeInvalidUTF8, "", fmt.Sprintf("0x%02X at byte %d", body[at], at))
		}
		at += size
	}
}

// checkFields checks the fields that orderpost or the operator requires.
func (p *parser) checkFields(required []string) *Error {
	if err := p.checkOrderNo(); err != nil {
		return err
	}
	for _, name := range required {
		if err := p.checkRequired(name); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) checkOrderNo() *Error {
	f, ok := p.find(FieldOrderNo)
	switch {
	case !ok:
		return refuse(CodeMissingField, FieldOrderNo, "absent")
	case f.kind != '"':
		return refuse(CodeBadOrderNo, FieldOrderNo, Clip(string(p.valueOf(f)), maxSeen))
	case f.end == f.value:
		return refuse(CodeBadOrderNo, FieldOrderNo, "an empty string")
	case f.end-f.value > MaxOrderNo:
		return refuse(CodeBadOrderNo, FieldOrderNo, fmt.Sprintf("a string of %d bytes", f.end-f.value))
	}
	return nil
}

func (p *parser) checkRequired(name string) *Error {
	f, ok := p.find(name)
	switch {
	case name == FieldTimestamp:
		return nil // the signer adds it
	case !ok:
		return refuse(CodeMissingField, pathOfName(name), "absent")
	case f.kind == 'n':
		return refuse(CodeMissingField, pathOfName(name), "null")
	case name == FieldTimeout && !isInteger(f.kind, p.valueOf(f)):
		return refuse(CodeWrongType, FieldTimeout, Clip(quoteSeen(f.kind, p.valueOf(f)), maxSeen))
	}
	return nil
}

// find returns a top-level field. It searches linearly, because orders have few
// fields.
func (p *parser) find(name string) (field, bool) {
	i := slices.IndexFunc(p.fields, func(f field) bool { return string(p.nameOf(f)) == name })
	if i < 0 {
		return field{}, false
	}
	return p.fields[i], true
}

// isInteger reports whether a canonical number has no fraction. Integers from 1e+21
// on have an exponent.
func isInteger(kind byte, text []byte) bool {
	return kind == '0' && (bytes.Contains(text, []byte("e+")) || !bytes.ContainsAny(text, ".e"))
}

// parser converts a body to its canonical form in one pass over its tokens. Parsers
// are pooled: parsing allocates only the Order.
type parser struct {
	body  []byte
	input bytes.Buffer
	dec   jsontext.Decoder

	out     []byte   // the canonical body so far
	pairs   []byte   // name=value of every top-level field, unsorted, without separators
	fields  []field  // the position of each field in pairs
	members []member // of the open objects, the innermost last
	scratch []byte   // the unescaped text of the string read last
	spare   []byte   // buffer for sorting members

	hasStamp  bool
	stampRank int // number of fields before the timestamp that are not array indexes
	timestamp int64
}

// field is a top-level field in parser.pairs. pairs[name:value-1] is its unescaped
// name and pairs[value:end] its text in the string to sign.
type field struct {
	name, value, end int
	kind             byte
}

// member is a name and its value in parser.out, without a comma.
type member struct {
	start, end int
	index      int64 // the name as an array index, or notIndex
}

// keepScratch is the largest buffer of a pooled parser, in bytes or elements. One
// order of a mebibyte must not hold memory forever.
const keepScratch = 64 << 10

func (p *parser) reset(body []byte) {
	p.body = body
	p.input = *bytes.NewBuffer(body)
	p.dec.Reset(&p.input)
	p.out, p.pairs, p.fields, p.members = p.out[:0], p.pairs[:0], p.fields[:0], p.members[:0]
	p.hasStamp, p.stampRank, p.timestamp = false, 0, 0
}

func (p *parser) release() {
	if max(cap(p.out), cap(p.pairs), cap(p.fields), cap(p.members), cap(p.scratch), cap(p.spare)) > keepScratch {
		return
	}
	p.reset(nil) // do not keep the caller's body
	parsers.Put(p)
}

// document reads the one value of the body, which must be an object.
func (p *parser) document() error {
	kind := p.dec.PeekKind()
	if _, _, err := p.value(1); err != nil {
		return err
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return p.trailing(err)
	}
	if kind != '{' {
		return refuse(CodeNotObject, "", kindWord(byte(kind)))
	}
	return nil
}

// value reads one value and appends its canonical form to out. For a string, text
// is its unescaped text, valid until the next string is read.
func (p *parser) value(depth int) (kind byte, text []byte, err error) {
	switch kind := p.dec.PeekKind(); kind {
	case '{':
		return '{', nil, p.object(depth)
	case '[':
		return '[', nil, p.array(depth)
	default:
		raw, err := p.dec.ReadValue()
		if err != nil {
			return 0, nil, p.syntax(err)
		}
		switch kind {
		case '"':
			text = p.appendText(raw)
		case '0':
			err = p.appendNumber(raw)
		default: // null, true, false
			p.out = append(p.out, raw...)
		}
		return byte(kind), text, err
	}
}

// open reads the { or [ of a container at the given depth.
func (p *parser) open(depth int) error {
	if _, err := p.dec.ReadToken(); err != nil {
		return p.syntax(err)
	}
	if depth > MaxDepth {
		return refuse(CodeTooDeep, p.path(), "a value at depth "+strconv.Itoa(depth))
	}
	return nil
}

func (p *parser) array(depth int) error {
	if err := p.open(depth); err != nil {
		return err
	}
	p.out = append(p.out, '[')
	for first := true; p.dec.PeekKind() != ']'; first = false {
		if !first {
			p.out = append(p.out, ',')
		}
		if _, _, err := p.value(depth + 1); err != nil {
			return err
		}
	}
	p.out = append(p.out, ']')
	_, err := p.dec.ReadToken()
	return p.syntax(err)
}

func (p *parser) object(depth int) error {
	if err := p.open(depth); err != nil {
		return err
	}
	p.out = append(p.out, '{')
	first, base := len(p.members), len(p.out)
	inOrder := true
	for p.dec.PeekKind() == '"' {
		previous := int64(-1)
		comma := len(p.out)
		if len(p.members) > first {
			previous = p.members[len(p.members)-1].index
			p.out = append(p.out, ',')
		}
		m := member{start: len(p.out)}
		keep, err := p.readMember(depth, &m)
		if err != nil {
			return err
		}
		if !keep {
			p.out = p.out[:comma]
			continue
		}
		inOrder = inOrder && (m.index > previous || m.index == notIndex)
		p.members = append(p.members, m)
	}
	if _, err := p.dec.ReadToken(); err != nil { // reads the }
		return p.syntax(err)
	}
	if !inOrder {
		p.arrange(p.members[first:], base)
	}
	if depth > 1 {
		p.members = p.members[:first]
	}
	p.out = append(p.out, '}')
	return nil
}

// readMember reads a name and its value into out and completes m. It reports
// whether the canonical body keeps the member.
func (p *parser) readMember(depth int, m *member) (keep bool, err error) {
	raw, err := p.dec.ReadValue()
	if err != nil {
		return false, p.syntax(err)
	}
	name := p.appendText(raw)
	if string(name) == "__proto__" {
		return false, refuse(CodeProtoKey, p.path(), `"__proto__"`)
	}
	p.out = append(p.out, ':')
	m.index = indexOfName(name)
	if depth == 1 {
		keep, err = p.topField(name)
	} else {
		_, _, err = p.value(depth + 1)
		keep = true
	}
	m.end = len(p.out)
	return keep, err
}

// topField reads the value of a top-level field and keeps its pair for the string
// to sign. It validates a timestamp like any value but keeps it neither in the body
// nor in the pairs: the signer sets it (rule 8).
func (p *parser) topField(name []byte) (keep bool, err error) {
	f := field{name: len(p.pairs)}
	isStamp := string(name) == FieldTimestamp
	p.pairs = append(append(p.pairs, name...), '=')
	f.value = len(p.pairs)
	valueAt := len(p.out)
	kind, text, err := p.value(2)
	if err != nil {
		return false, err
	}
	if isStamp {
		p.pairs = p.pairs[:f.name]
		p.keepStamp(kind, p.out[valueAt:])
		return false, nil
	}
	if kind != '"' {
		text = p.out[valueAt:]
	}
	p.pairs = append(p.pairs, text...)
	f.kind, f.end = kind, len(p.pairs)
	p.fields = append(p.fields, f)
	return true, nil
}
