package xlsx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// The kinds of tokens.
type tokenKind uint8

const (
	startTag tokenKind = iota + 1
	endTag
	charData
)

// token is a piece of XML. Its slices are valid until the next call of next.
type token struct {
	kind tokenKind
	// name is the name of a tag, without the prefix of the root.
	name []byte
	// attrs are the attributes of a start tag as they stand there, for attribute.
	attrs []byte
	// text is character data with its references replaced.
	text []byte
}

const (
	// maxToken bounds a tag or a text, and with it the memory for one.
	maxToken = 1 << 20
	// maxReference bounds a reference: &#x0010FFFF; is one of the longest.
	maxReference = 12
	// maxNesting bounds the elements inside each other. Workbooks need about ten.
	maxNesting = 64
)

// errSyntax is the error of XML that is not well formed.
var errSyntax = errors.New("the XML is not well formed")

// scanner reads XML in bounded memory. It checks that tags match, and refuses document
// types, entities of one's own and other encodings than UTF-8 and UTF-16 with its mark. A text that ends before
// its root does is an io.ErrUnexpectedEOF, so a damaged part never looks like a short one.
type scanner struct {
	r     io.Reader
	buf   []byte
	at    int // the next byte in buf
	err   error
	ended bool // the root is closed

	looked, wide bool // the beginning was seen; it is UTF-16

	open  []byte // the names of the open elements, one behind the other
	marks []int  // where each begins in open
	empty bool   // the last tag closed itself: its end comes next
	text  []byte // for text with references
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, 0, 64<<10)}
}

// more reads more behind the window. It returns false if there is no more, or if the
// token in the window is too long.
func (s *scanner) more() bool {
	if s.err != nil {
		return false
	}
	if s.at > 0 && cap(s.buf)-len(s.buf) < 4<<10 {
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.at = 0
	}
	if len(s.buf) == cap(s.buf) {
		if len(s.buf) >= maxToken {
			s.err = fmt.Errorf("a tag or a text is longer than %d bytes", maxToken)
			return false
		}
		s.buf = append(make([]byte, 0, 2*cap(s.buf)), s.buf...)
	}
	for range 100 { // a reader may return nothing, but not for ever
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf, s.err = s.buf[:len(s.buf)+n], err
		if !s.looked && len(s.buf) > 1 {
			if s.looked = true; bytes.HasPrefix(s.buf, []byte{0xff, 0xfe}) || bytes.HasPrefix(s.buf, []byte{0xfe, 0xff}) { // parts may be in UTF-16
				s.r = transform.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(s.buf)), s.r), unicode.BOMOverride(encoding.Nop.NewDecoder()))
				s.buf, s.err, s.wide = s.buf[:0], nil, true
				continue
			}
		}
		if !s.looked && n > 0 && err == nil { // one byte does not tell
			continue
		}
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// cut is the error of XML that ends too early.
func (s *scanner) cut() error {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return s.err
}

// nextStart reads up to the next start tag. It returns io.EOF behind the root.
func (s *scanner) nextStart() (token, error) {
	for {
		if t, err := s.next(); err != nil || t.kind == startTag {
			return t, err
		}
	}
}

// next reads a token. It returns io.EOF behind the root.
func (s *scanner) next() (t token, err error) {
	if s.empty {
		s.empty = false
		t.kind, t.name = endTag, s.top()
		s.pop()
		return t, nil
	}
	for {
		if s.at == len(s.buf) && !s.more() {
			if s.ended && errors.Is(s.err, io.EOF) {
				return t, io.EOF
			}
			return t, s.cut()
		}
		if s.buf[s.at] != '<' {
			if t.text, err = s.readText(); err != nil {
				return t, err
			}
			if len(s.marks) > 0 {
				t.kind = charData
				return t, nil
			}
			if len(bytes.Trim(t.text, "\ufeff \t\r\n")) > 0 {
				return t, errSyntax // text outside of the root
			}
			continue
		}
		for len(s.buf)-s.at < 2 {
			if !s.more() {
				return t, s.cut()
			}
		}
		switch s.buf[s.at+1] {
		case '?':
			inside, err := s.until("?>")
			if err != nil {
				return t, err
			}
			if !s.wide && !isUTF8(inside) {
				return t, errors.New("the XML is not in UTF-8")
			}
		case '!':
			text, is, err := s.readBang()
			if err != nil {
				return t, err
			}
			if is {
				t.kind, t.text = charData, text
				return t, nil
			}
		case '/':
			return s.readEnd()
		default:
			return s.readStart()
		}
	}
}

// isUTF8 reports whether a processing instruction names no other encoding.
func isUTF8(instruction []byte) bool {
	rest, is := bytes.CutPrefix(instruction, []byte("<?xml"))
	_, named, found := bytes.Cut(rest, []byte("encoding"))
	if !is || !found {
		return true
	}
	named = bytes.TrimLeft(named, "= \t\r\n\"'")
	for _, same := range []string{"utf-8", "us-ascii", "ascii"} {
		if len(named) >= len(same) && bytes.EqualFold(named[:len(same)], []byte(same)) {
			return true
		}
	}
	return false
}

// until returns what there is up to a mark, the mark included, and goes behind it.
func (s *scanner) until(mark string) ([]byte, error) {
	from := 0
	for {
		if i := bytes.Index(s.buf[s.at+from:], []byte(mark)); i >= 0 {
			piece := s.buf[s.at : s.at+from+i+len(mark)]
			s.at += len(piece)
			return piece, nil
		}
		from = max(len(s.buf)-s.at-len(mark)+1, 0)
		if !s.more() {
			return nil, s.cut()
		}
	}
}

// readBang reads a comment, or CDATA, whose text it returns.
func (s *scanner) readBang() (text []byte, is bool, err error) {
	const cdata, comment = "<![CDATA[", "<!--"
	for len(s.buf)-s.at < len(cdata) && s.more() {
	}
	switch w := s.buf[s.at:]; {
	case bytes.HasPrefix(w, []byte(comment)):
		s.at += len(comment)
		_, err = s.until("-->")
		return nil, false, err
	case bytes.HasPrefix(w, []byte(cdata)) && len(s.marks) > 0:
		s.at += len(cdata)
		text, err = s.until("]]>")
		return lineEnds(bytes.TrimSuffix(text, []byte("]]>"))), true, err
	case bytes.HasPrefix(w, []byte("<!DOCTYPE")):
		return nil, false, errors.New("the XML has a document type, which no workbook has")
	}
	return nil, false, errSyntax
}

// readText reads character data up to the next tag and replaces its references.
func (s *scanner) readText() ([]byte, error) {
	from := 0
	for {
		if i := bytes.IndexByte(s.buf[s.at+from:], '<'); i >= 0 {
			piece := s.buf[s.at : s.at+from+i]
			s.at += len(piece)
			return s.unescape(piece)
		}
		from = len(s.buf) - s.at
		if !s.more() {
			if len(s.marks) > 0 || !errors.Is(s.err, io.EOF) {
				return nil, s.cut()
			}
			piece := s.buf[s.at:]
			s.at = len(s.buf)
			return piece, nil
		}
	}
}

// lineEnds makes every line end a newline (XML 1.0, section 2.11).
func lineEnds(text []byte) []byte {
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// unescape replaces line ends, and then references, which may stand for a carriage return.
func (s *scanner) unescape(text []byte) ([]byte, error) {
	text = lineEnds(text)
	if bytes.IndexByte(text, '&') < 0 {
		return text, nil
	}
	s.text = s.text[:0]
	for len(text) > 0 {
		i := bytes.IndexByte(text, '&')
		if i < 0 {
			s.text = append(s.text, text...)
			break
		}
		s.text = append(s.text, text[:i]...)
		text = text[i+1:]
		end := bytes.IndexByte(text[:min(len(text), maxReference)], ';')
		if end < 0 {
			return nil, errSyntax
		}
		var err error
		if s.text, err = appendReference(s.text, string(text[:end])); err != nil {
			return nil, err
		}
		text = text[end+1:]
	}
	return s.text, nil
}

// appendReference appends what a reference stands for.
func appendReference(dst []byte, name string) ([]byte, error) {
	switch name {
	case "lt":
		return append(dst, '<'), nil
	case "gt":
		return append(dst, '>'), nil
	case "amp":
		return append(dst, '&'), nil
	case "apos":
		return append(dst, '\''), nil
	case "quot":
		return append(dst, '"'), nil
	}
	digits, base := name, 0
	switch {
	case len(name) > 2 && name[:2] == "#x":
		digits, base = name[2:], 16
	case len(name) > 1 && name[0] == '#':
		digits, base = name[1:], 10
	default:
		return nil, fmt.Errorf("%w: &%s; is no reference of XML", errSyntax, name)
	}
	r, err := strconv.ParseUint(digits, base, 32)
	if err != nil || r > utf8.MaxRune || !utf8.ValidRune(rune(r)) {
		return nil, fmt.Errorf("%w: &%s; is no character", errSyntax, name)
	}
	return utf8.AppendRune(dst, rune(r)), nil
}

// tag returns a whole tag and goes behind it. A > inside quotes does not end it.
func (s *scanner) tag() ([]byte, error) {
	i, quote := 1, byte(0)
	for {
		w := s.buf[s.at:]
		for ; i < len(w); i++ {
			switch c := w[i]; {
			case quote != 0:
				if c == quote {
					quote = 0
				} else if c == '<' {
					return nil, errSyntax
				}
			case c == '>':
				s.at += i + 1
				return w[:i+1], nil
			case c == '"', c == '\'':
				quote = c
			case c == '<':
				return nil, errSyntax
			}
		}
		if !s.more() {
			return nil, s.cut()
		}
	}
}

func (s *scanner) readStart() (t token, err error) {
	tag, err := s.tag()
	if err != nil {
		return t, err
	}
	tag = tag[1 : len(tag)-1]
	if n := len(tag) - 1; n >= 0 && tag[n] == '/' {
		tag, s.empty = tag[:n], true
	}
	end := 0
	for end < len(tag) && !isSpace(tag[end]) {
		end++
	}
	name := tag[:end]
	if !isName(name) || s.ended || len(s.marks) >= maxNesting {
		return t, errSyntax
	}
	s.marks = append(s.marks, len(s.open))
	s.open = append(s.open, name...)
	return token{kind: startTag, name: s.local(name), attrs: tag[end:]}, nil
}

// isName reports whether a tag begins with a name, roughly: what matters is that its end
// has the same one.
func isName(name []byte) bool {
	if len(name) == 0 {
		return false
	}
	c := name[0]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

func (s *scanner) readEnd() (t token, err error) {
	if last := len(s.marks) - 1; last >= 0 { // the usual case, whole in the window
		name := s.open[s.marks[last]:]
		if w := s.buf[s.at+2:]; len(w) > len(name) && w[len(name)] == '>' && string(w[:len(name)]) == string(name) {
			s.at += 2 + len(name) + 1
			s.pop()
			return token{kind: endTag, name: s.local(name)}, nil
		}
	}
	tag, err := s.tag()
	if err != nil {
		return t, err
	}
	name := bytes.TrimRight(tag[2:len(tag)-1], " \t\r\n")
	if len(s.marks) == 0 || !bytes.Equal(name, s.open[s.marks[len(s.marks)-1]:]) {
		return t, errSyntax
	}
	t = token{kind: endTag, name: s.local(name)}
	s.pop()
	return t, nil
}

// top returns the local name of the innermost element. It stays valid until the next
// start tag.
func (s *scanner) top() []byte { return s.local(s.open[s.marks[len(s.marks)-1]:]) }

func (s *scanner) pop() {
	last := len(s.marks) - 1
	s.open, s.marks = s.open[:s.marks[last]], s.marks[:last]
	s.ended = last == 0
}

// depth returns how many elements are open.
func (s *scanner) depth() int { return len(s.marks) }

// skip reads up to the end of the element whose start was read last.
func (s *scanner) skip() error {
	for depth := s.depth(); ; {
		if _, err := s.next(); err != nil {
			return err
		}
		if s.depth() < depth {
			return nil
		}
	}
}

// local returns the name of an element without its prefix, if that is the prefix of the root. The
// elements of other namespaces keep theirs, so nobody takes them for those of workbooks.
func (s *scanner) local(name []byte) []byte {
	root := s.open
	if len(s.marks) > 1 {
		root = s.open[:s.marks[1]]
	}
	n := bytes.IndexByte(root, ':') + 1
	if n > 1 && len(name) > n && bytes.Equal(name[:n], root[:n]) {
		return name[n:]
	}
	return name
}

// attribute reads one attribute, with its prefix if it has one. name is nil behind the last one.
func attribute(attrs []byte) (name, value, rest []byte, err error) {
	for len(attrs) > 0 && isSpace(attrs[0]) {
		attrs = attrs[1:]
	}
	if len(attrs) == 0 {
		return nil, nil, nil, nil
	}
	i := bytes.IndexByte(attrs, '=')
	if i <= 0 {
		return nil, nil, nil, errSyntax
	}
	name = attrs[:i]
	for len(name) > 0 && isSpace(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	for i++; i < len(attrs) && isSpace(attrs[i]); i++ {
	}
	if i == len(attrs) || attrs[i] != '"' && attrs[i] != '\'' || len(name) == 0 {
		return nil, nil, nil, errSyntax
	}
	end := bytes.IndexByte(attrs[i+1:], attrs[i])
	if end < 0 {
		return nil, nil, nil, errSyntax
	}
	return name, attrs[i+1 : i+1+end], attrs[i+1+end+1:], nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// only reads the rest of an element that has one element with text in it, and nothing else:
// what begins with begin, and ends with end, the end of outer included. outer is the name of
// the innermost element. That is how nearly every cell and text is written, and reading it as
// one piece halves the time of a sheet. ok is false if the element is another one, or is not
// whole in the window; then nothing was read.
func (s *scanner) only(outer, begin, end string) (text []byte, ok bool) {
	w := s.buf[s.at:]
	if s.empty || len(w) < len(begin) || string(w[:len(begin)]) != begin || string(s.open[s.marks[len(s.marks)-1]:]) != outer {
		return nil, false
	}
	text = w[len(begin):]
	i := bytes.IndexByte(text, '<')
	if i < 0 || len(text)-i < len(end) || string(text[i:i+len(end)]) != end {
		return nil, false
	}
	if text = text[:i]; bytes.IndexByte(text, '&') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, false
	}
	s.at += len(begin) + i + len(end)
	s.pop()
	return text, true
}

// attributes returns the attributes of a small element, by their names with prefixes, with their
// references replaced.
func (s *scanner) attributes(attrs []byte) (map[string]string, error) {
	out := make(map[string]string)
	for {
		name, value, rest, err := attribute(attrs)
		if err != nil || name == nil {
			return out, err
		}
		text, err := s.unescape(value)
		if err != nil {
			return nil, err
		}
		out[string(name)], attrs = string(text), rest
	}
}
