package answer

import (
	"bytes"
	"slices"
	"strconv"
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
	// success says that a member for programs, at the top level or in an envelope, tells that the
	// request succeeded. created says that one at any depth tells that the order was created.
	success, created bool

	// exists says that a code tells that the order exists, and mentions that a text may. denied says
	// that something tells that the order was not created, and unclear that there is a text, or a
	// word about the order's state, that may mean anything.
	exists, mentions, denied, unclear bool
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
	listDepth  int    // number of enclosing lists of error messages, which may be about single fields

	// weak is a member that contradicts an acceptance if nothing else speaks for it:
	// any false, and a message below the top level. weakPath is where it is.
	weak, weakPath []byte
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// examine scans the body of an answer to an order. The findings point into body.
func examine(body []byte, orderNo string) findings {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	s.findings, s.orderNo, s.errorDepth, s.listDepth, s.weak = findings{}, orderNo, 0, 0, nil
	s.path, s.names = s.path[:0], s.names[:0]
	s.input = *bytes.NewBuffer(body)
	s.dec.Reset(&s.input)
	isObject := s.dec.PeekKind() == '{'
	whole := s.value(memberNone) && len(bytes.Trim(body[s.dec.InputOffset():], " \t\r\n")) == 0
	s.input = bytes.Buffer{} // do not keep the caller's body in the pool
	s.dec.Reset(&s.input)
	if s.weak != nil && s.contradiction == "" && !s.ours && !(s.success && s.weak[0] == 'f') {
		s.contradiction, s.contradictionValue = string(s.weakPath), s.weak
	}
	f := s.findings
	s.weak = nil // it points into the body
	if !whole {
		return findings{other: f.other, otherIsNumber: f.otherIsNumber, ours: f.ours}
	}
	f.object = isObject
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
	if m == memberErrors {
		s.listDepth++
		defer func() { s.listDepth-- }()
	}
	at, names := len(s.path), len(s.names)
	end := jsontext.Kind('}')
	if kind == '[' {
		end = ']'
	}
	count := 0
	for s.dec.PeekKind() != end {
		count++
		inner := memberNone
		switch m { // an array's elements belong to its member
		case memberOrderNo:
			inner = m
		case memberError, memberErrors, memberMessage, memberRemark:
			inner = memberRemark
		}
		s.path = append(s.path[:at], segment{index: count - 1})
		if kind == '{' {
			name, ok := s.name()
			if !ok {
				return false
			}
			s.path[at] = segment{name: name}
			inner = memberOf(name)
			if inner == memberCode && at > 0 && inEnvelopes(s.path[:at]) {
				inner = memberEnvelope
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
	v := stanceOf(m, len(s.path), kind, len(text) == 0, text)
	switch top := len(s.path) == 1; {
	case v == stanceAgainst:
		s.contradict(raw)
	case v == stanceFor && (top || inEnvelopes(s.path[:len(s.path)-1])):
		s.success = true
	case v == stanceUnknown && top:
		s.unclear = true
	}
	s.tell(kind, m, v, raw, text)
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

// tell notes what a scalar says about the order's existence. v is its stance.
func (s *scanner) tell(kind jsontext.Kind, m member, v stance, raw, text []byte) {
	switch m {
	case memberNone:
		if kind == 'f' {
			s.suspect(raw)
		}
		s.denied = s.denied || kind == '"' && s.errorDepth > 0 && denies(text, s.orderNo)
	case memberDone, memberYes:
		s.created = s.created || v == stanceFor
		s.denied = s.denied || v == stanceAgainst
	case memberSuccess:
		s.created = s.created || v == stanceFor && len(bytes.Trim(text, "0123456789")) > 0
	case memberState:
		s.created = s.created || v == stanceFor && len(bytes.Trim(text, "0123456789")) > 0
		s.denied = s.denied || kind == '"' && isFinalRefusal(text)
		s.exists = s.exists || kind == '"' && isDuplicateCode(text)
	case memberFailed, memberNo:
		s.denied = s.denied || kind == 't' && isFinalRefusal(s.path[len(s.path)-1].name)
	case memberField:
		s.denied = s.denied || kind == '"' && !has(text, "order")
	case memberCode, memberErrno, memberEnvelope, memberErrorCode, memberError:
		switch {
		case kind != '"':
		case isDuplicateCode(text):
			s.exists = s.exists || s.listDepth == 0 || has(text, "order")
		default:
			s.read(m, raw, text)
		}
	case memberMessage, memberRemark, memberOrderNo:
		if kind == '"' && !(m == memberOrderNo && (string(text) == s.orderNo || s.otherIsNumber)) {
			s.read(m, raw, text)
		}
	}
}

// read notes what a text for people may mean. Texts hold an order, and never settle one.
func (s *scanner) read(m member, raw, text []byte) {
	if isHarmless(text) {
		return
	}
	isCode := m != memberMessage && m != memberRemark && m != memberOrderNo && bytes.IndexByte(text, ' ') < 0
	s.unclear = s.unclear || m != memberOrderNo
	denied := denies(text, s.orderNo)
	s.denied = s.denied || denied
	s.mentions = s.mentions || !denied && !isCode && has(text, "exist", "duplicat", "already") &&
		(s.listDepth == 0 || m == memberOrderNo || has(text, "order"))
	switch {
	case m != memberMessage || !denied && !has(text, "error"):
	case len(s.path) == 1:
		s.contradict(raw)
	default:
		s.suspect(raw)
	}
}

// suspect notes the value at the current path as a weak contradiction. The first one
// stays, but a message displaces a false.
func (s *scanner) suspect(raw []byte) {
	if s.weak == nil || s.weak[0] == 'f' && raw[0] != 'f' {
		s.weak, s.weakPath = raw, s.appendPath(s.weakPath[:0])
	}
}

// contradict notes the value at the current path; nil = a container.
func (s *scanner) contradict(raw []byte) {
	if s.contradiction == "" {
		s.contradiction, s.contradictionValue = string(s.appendPath(nil)), raw
	}
}

// appendPath appends the current path, written as in a rule.
func (s *scanner) appendPath(dst []byte) []byte {
	dst = append(dst, "body"...)
	for _, p := range s.path {
		switch {
		case p.name == nil:
			dst = append(strconv.AppendInt(append(dst, '['), int64(p.index), 10), ']')
		case isIdentifier(p.name):
			dst = append(append(dst, '.'), p.name...)
		default:
			dst = append(strconv.AppendQuote(append(dst, '['), string(p.name)), ']')
		}
	}
	return dst
}

// inEnvelopes reports whether all names of a path are those of envelopes.
func inEnvelopes(path []segment) bool {
	return !slices.ContainsFunc(path, func(p segment) bool { return p.name != nil && !isEnvelope(p.name) })
}

func isIdentifier(name []byte) bool {
	for i, c := range name {
		if !(c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return len(name) > 0
}
