package answer

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// findings holds what a body says about the order and the request's effect.
type findings struct {
	object bool // the body is one complete JSON object

	// ours says that the body repeats our order_no. other is the first order_no
	// in the body that is not ours, as JSON. otherIsNumber says that other looks
	// like an order number rather than a message about the field order_no.
	ours, otherIsNumber bool
	other               []byte

	// contradiction is the first member that contradicts an acceptance, written
	// as in a rule. contradictionValue is its value as JSON, nil for an object or
	// an array.
	contradiction      string
	contradictionValue []byte
	// success says that a top-level member reports success.
	success bool

	// shape is a hash over the top-level names with the kinds of their values,
	// the unknown words about the order's state, and ours. Order does not matter.
	shape uint64
}

// segment is one step from the root of a document to a value.
type segment struct {
	name  []byte // unquoted; nil in an array
	index int
}

// scanner scans a body once, without building values.
type scanner struct {
	findings
	orderNo    string // "" = not known: the scanner compares no order_no
	input      bytes.Buffer
	dec        jsontext.Decoder
	path       []segment
	names      []byte // the unquoted names that path points into
	text       []byte // the string unquoted last
	errorDepth int    // number of enclosing containers of error messages
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// examine scans the body of an answer to an order. The findings point into body.
func examine(body []byte, orderNo string) findings {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	s.findings, s.orderNo, s.errorDepth = findings{}, orderNo, 0
	s.path, s.names = s.path[:0], s.names[:0]
	s.input = *bytes.NewBuffer(body)
	s.dec.Reset(&s.input)
	isObject := s.dec.PeekKind() == '{'
	whole := s.value(memberNone) && len(bytes.Trim(body[s.dec.InputOffset():], " \t\r\n")) == 0
	s.input = bytes.Buffer{} // do not keep the caller's body in the pool
	s.dec.Reset(&s.input)
	f := s.findings
	if !whole {
		return findings{other: f.other, otherIsNumber: f.otherIsNumber, ours: f.ours}
	}
	f.object = isObject
	if f.ours {
		f.shape += splitMix64(1)
	}
	return f
}

// value reads the next value, which belongs to a member of the given class. It
// returns false if the document is broken.
func (s *scanner) value(m member) bool {
	switch kind := s.dec.PeekKind(); kind {
	case '{', '[':
		return s.container(kind, m)
	default:
		raw, err := s.dec.ReadValue()
		if err != nil {
			return false
		}
		s.scalar(kind, m, raw)
		return true
	}
}

func (s *scanner) container(kind jsontext.Kind, m member) bool {
	if _, err := s.dec.ReadToken(); err != nil {
		return false
	}
	if m == memberErrors || m == memberError {
		s.errorDepth++
		defer func() { s.errorDepth-- }()
	}
	at, names := len(s.path), len(s.names)
	end := jsontext.Kind('}')
	if kind == '[' {
		end = ']'
	}
	count := 0
	for s.dec.PeekKind() != end {
		count++
		inner := m // an array's elements belong to its member
		if m != memberOrderNo {
			inner = memberNone
		}
		s.path = append(s.path[:at], segment{index: count - 1})
		if kind == '{' {
			name, ok := s.name()
			if !ok {
				return false
			}
			s.path[at] = segment{name: name}
			inner = memberOf(name)
			if inner == memberCode && at == 1 && isEnvelope(s.path[0].name) {
				inner = memberEnvelope
			}
			if at == 0 {
				s.shape += splitMix64(maphash.Bytes(shapeSeed, name) + uint64(kindClass(s.dec.PeekKind())))
			}
		}
		if !s.value(inner) {
			return false
		}
		s.names = s.names[:names]
	}
	s.path = s.path[:at]
	_, err := s.dec.ReadToken()
	if v := stanceOf(m, at, kind, count == 0, nil); v == stanceAgainst {
		s.contradict(nil)
	}
	return err == nil
}

// name reads a member's name.
func (s *scanner) name() ([]byte, bool) {
	raw, err := s.dec.ReadValue()
	if err != nil || len(raw) < 2 {
		return nil, false
	}
	at := len(s.names)
	if s.names, err = jsontext.AppendUnquote(s.names, raw); err != nil {
		return nil, false
	}
	return s.names[at:], true
}

func (s *scanner) scalar(kind jsontext.Kind, m member, raw []byte) {
	text := raw
	if kind == '"' {
		text = raw[1 : len(raw)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			s.text, _ = jsontext.AppendUnquote(s.text[:0], raw)
			text = s.text
		}
	}
	s.compare(kind, m, raw, text)
	if m == memberNone || m == memberOrderNo {
		return
	}
	switch v := stanceOf(m, len(s.path), kind, len(text) == 0, text); {
	case v == stanceAgainst:
		s.contradict(raw)
	case v == stanceFor && len(s.path) == 1:
		s.success = true
	case v == stanceUnknown && len(s.path) == 1:
		s.shape += splitMix64(maphash.Bytes(shapeSeed, text) ^ maphash.Bytes(shapeSeed, s.path[0].name))
	}
}

// minEcho is the shortest order_no that counts as repeated when a member of any
// name holds it. A shorter one counts only in a member order_no.
const minEcho = 8

// compare compares a scalar with our order_no.
func (s *scanner) compare(kind jsontext.Kind, m member, raw, text []byte) {
	if s.orderNo == "" || kind != '"' && kind != '0' {
		return
	}
	switch same := string(text) == s.orderNo; {
	case same && (m == memberOrderNo || kind == '"' && len(text) >= minEcho):
		s.ours = true
	case !same && m == memberOrderNo:
		numbered := s.errorDepth == 0 && bytes.ContainsAny(text, "0123456789") && !bytes.ContainsAny(text, " \t\r\n")
		if s.other == nil || numbered && !s.otherIsNumber {
			s.other, s.otherIsNumber = raw, numbered
		}
	}
}

// accuse notes the value at the current path; nil = a container.
func (s *scanner) contradict(raw []byte) {
	if s.contradiction != "" {
		return
	}
	var path strings.Builder
	path.WriteString("body")
	for _, p := range s.path {
		switch {
		case p.name == nil:
			path.WriteString("[" + strconv.Itoa(p.index) + "]")
		case isIdentifier(p.name):
			path.WriteString("." + string(p.name))
		default:
			path.WriteString("[" + strconv.Quote(string(p.name)) + "]")
		}
	}
	s.contradiction, s.contradictionValue = path.String(), raw
}

func isIdentifier(name []byte) bool {
	for i, c := range name {
		if !(c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return len(name) > 0
}

// kindClass maps true and false to one kind.
func kindClass(k jsontext.Kind) jsontext.Kind {
	if k == 't' {
		return 'f'
	}
	return k
}

var shapeSeed = maphash.MakeSeed()

// mixed spreads a number over all bits (SplitMix64), so that sums of such
// numbers tell sets apart.
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
