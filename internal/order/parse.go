package order

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"
)

// Limits of a body (signing rules 1 and 2).
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

// Parse parses an intent's body by signing rules 1 to 7 and checks the fields that
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
