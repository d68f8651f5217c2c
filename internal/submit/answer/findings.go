package answer

import (
	"bytes"
	"hash/maphash"
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
	// success says that a top-level member reports success.
	success bool

	// exists says that a text tells, in words that are all known, that an order with
	// this order_no exists. claimed says that a member other than a code tells that the
	// order was created. denied says that something tells that it was not, and unclear
	// that there is a message, a reason or a code in words that are not known.
	exists, claimed, denied, unclear bool

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
	s.tell(kind, m, raw, text)
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

// tell notes what a scalar says about the order's existence, and texts that speak of a
// failure.
func (s *scanner) tell(kind jsontext.Kind, m member, raw, text []byte) {
	switch m {
	case memberNone:
		if kind == 'f' {
			s.suspect(raw)
		}
		if kind == '"' && s.errorDepth > 0 && saidBy(text, s.orderNo, false) == saidNot {
			s.denied = true
		}
		return
	case memberDone, memberYes:
		yes := kind == 't' || string(text) == "true"
		s.claimed = s.claimed || yes && m == memberDone
		s.denied = s.denied || !yes && stanceOf(m, len(s.path), kind, len(text) == 0, text) == stanceAgainst
		return
	case memberSuccess, memberState:
		number := len(bytes.Trim(text, "0123456789")) == 0
		s.claimed = s.claimed || !number && stanceOf(m, 2, kind, len(text) == 0, text) == stanceFor
		if m == memberState && kind == '"' {
			s.denied = s.denied || isFinalRefusal(text)
			s.exists = s.exists || saidBy(text, s.orderNo, false) == saidExists
		}
		return
	case memberFailed, memberNo:
		s.denied = s.denied || kind == 't' && s.path[len(s.path)-1].name != nil && isFinalRefusal(s.path[len(s.path)-1].name)
		return
	case memberField:
		s.denied = s.denied || kind == '"' && !namesOrder(text)
		return
	case memberCode, memberErrno, memberErrorCode, memberError, memberMessage, memberRemark, memberOrderNo:
	default:
		return
	}
	if kind != '"' || m == memberOrderNo && s.other != nil && s.otherIsNumber {
		return
	}
	switch said := saidBy(text, s.orderNo, m == memberOrderNo); {
	case said == saidExists && (s.listDepth == 0 || m == memberOrderNo || namesOrder(text)):
		s.exists = true
	case said == saidNot || said == saidError:
		s.denied = s.denied || said == saidNot
		s.unclear = true
		if m == memberMessage && len(s.path) == 1 {
			s.contradict(raw)
		} else if m == memberMessage {
			s.suspect(raw)
		}
	case said != saidNothing && m != memberOrderNo:
		s.unclear = true
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
