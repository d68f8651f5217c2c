package importer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/transform"

	"orderpost/internal/order"
)

// The encodings of files.
const (
	EncodingAuto = "auto"
	UTF8         = "utf-8"
	UTF16LE      = "utf-16le"
	UTF16BE      = "utf-16be"
	Windows1252  = "windows-1252"
)

// others are the encodings that no byte tells apart. A person has to name them.
var others = []struct {
	name string
	of   encoding.Encoding
}{
	{Windows1252, charmap.Windows1252}, {"windows-1250", charmap.Windows1250}, {"windows-1251", charmap.Windows1251}, {"macintosh", charmap.Macintosh}, {"shift_jis", japanese.ShiftJIS},
}

// Encodings lists the encodings.
func Encodings() []string {
	names := []string{EncodingAuto, UTF8, UTF16LE, UTF16BE}
	for _, o := range others {
		names = append(names, o.name)
	}
	return names
}

var utf8BOM = []byte("\ufeff")

// text is a file's content as UTF-8 without byte order mark.
type text struct {
	io.Reader
	// bom says that the file began with a byte order mark.
	bom      bool
	encoding string
	// beyond looks for characters beyond ASCII in a file that does not say its encoding; nil =
	// it does, or somebody did.
	beyond *beyondASCII
}

// decode converts content to UTF-8. want is one of [Encodings]. A byte order mark
// takes precedence over want. Without both, the file is UTF-8, and the check of its cells finds
// what is not.
func decode(file string, content io.Reader, want string) (*text, error) {
	head := make([]byte, 4)
	n, err := io.ReadFull(content, head)
	if err != nil && n == 0 && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	head = head[:n]
	rest := io.MultiReader(bytes.NewReader(head), content)
	wide := func(order binary.ByteOrder, name string, bom bool) (*text, error) {
		if bom {
			rest = io.MultiReader(bytes.NewReader(head[2:]), content)
		}
		return &text{Reader: transform.NewReader(rest, utf16Decoder{order: order}), bom: bom, encoding: name}, nil
	}
	switch {
	case bytes.HasPrefix(head, utf8BOM):
		return &text{Reader: io.MultiReader(bytes.NewReader(head[len(utf8BOM):]), content), bom: true, encoding: UTF8}, nil
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return wide(binary.LittleEndian, UTF16LE, true)
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return wide(binary.BigEndian, UTF16BE, true)
	}
	if (want == EncodingAuto || want == "") && n >= 2 { // text has no NUL, so a NUL in every other byte means UTF-16
		switch {
		case head[0] != 0 && head[1] == 0:
			want = UTF16LE
		case head[0] == 0 && head[1] != 0:
			want = UTF16BE
		}
	}
	switch want {
	case UTF8:
		return &text{Reader: rest, encoding: UTF8}, nil
	case UTF16LE:
		return wide(binary.LittleEndian, UTF16LE, false)
	case UTF16BE:
		return wide(binary.BigEndian, UTF16BE, false)
	case EncodingAuto, "":
		b := &beyondASCII{r: rest}
		return &text{Reader: b, encoding: UTF8, beyond: b}, nil
	}
	for _, o := range others {
		if o.name == want {
			return &text{Reader: &strict{r: transform.NewReader(rest, o.of.NewDecoder()), name: want, line: 1}, encoding: want}, nil
		}
	}
	return nil, fmt.Errorf("encoding %q is none of %s", want, strings.Join(Encodings(), ", "))
}

// characters finds the characters beyond ASCII in a text that comes in pieces.
type characters struct{ rest []byte } // the beginning of one

// add takes the next byte. ok says that it ends a character beyond ASCII; size is 1 for what is none.
func (c *characters) add(b byte) (r rune, size int, ok bool) {
	if len(c.rest) == 0 && b < utf8.RuneSelf {
		return 0, 0, false
	}
	if c.rest = append(c.rest, b); !utf8.FullRune(c.rest) {
		return 0, 0, false
	}
	r, size = utf8.DecodeRune(c.rest)
	c.rest = c.rest[:0]
	return r, size, true
}

// beyondASCII notes whether a text has a character beyond ASCII that is UTF-8. Hardly any text in
// another encoding has one.
type beyondASCII struct {
	r     io.Reader
	found bool
	seen  characters
}

// Read implements io.Reader.
func (b *beyondASCII) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	for i := 0; i < n && !b.found; i++ {
		r, size, ok := b.seen.add(p[i])
		b.found = ok && size > 1 && r != utf8.RuneError
	}
	return n, err
}

// strict returns an error for a byte that is no character of the encoding, because the file must
// have another one. Decoders pass such bytes as U+FFFD or as a control character.
type strict struct {
	r    io.Reader
	name string
	line int
	seen characters
	err  error // once found, it ends every read
}

// Read implements io.Reader.
func (s *strict) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	for _, c := range p[:n] {
		if c == '\n' {
			s.line++
		}
		if r, _, ok := s.seen.add(c); ok && (r == utf8.RuneError || r >= 0x80 && r < 0xa0) {
			s.err = advise(fmt.Sprintf("line %d has a byte that is no character in %s; save the file as UTF-8, or name its encoding", s.line, s.name), " (--encoding)")
			return 0, s.err
		}
	}
	return n, err
}

// notUTF8 is the error of a cell that is not UTF-8. It shows how the cell reads in other encodings.
func notUTF8(cell string) error {
	at := 0
	for at < len(cell) {
		if r, size := utf8.DecodeRuneInString(cell[at:]); r == utf8.RuneError && size == 1 {
			break
		} else {
			at += size
		}
	}
	var reads []string
	said := make(map[string]bool)
	for _, o := range others {
		as, err := io.ReadAll(&strict{r: transform.NewReader(strings.NewReader(cell), o.of.NewDecoder())})
		if text := string(as); err == nil && !said[text] {
			said[text] = true
			reads = append(reads, fmt.Sprintf("%q in %s", order.Clip(text, maxQuoted/2), o.name))
		}
	}
	what := fmt.Sprintf("%q is not UTF-8 (byte 0x%02X, character %d)", clip(cell), cell[at], utf8.RuneCountInString(cell[:at])+1)
	if len(reads) > 0 {
		what += "; it would be " + strings.Join(reads, ", ")
	}
	return advise(what+"; save the file as UTF-8, or name its encoding", " (--encoding)")
}

// utf16Decoder decodes UTF-16. It converts a lone surrogate to invalid UTF-8, which
// the check of the cell reports. Libraries silently replace it.
type utf16Decoder struct {
	transform.NopResetter
	order binary.ByteOrder
}

// Transform implements transform.Transformer.
func (w utf16Decoder) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		if len(dst)-nDst < utf8.UTFMax {
			return nDst, nSrc, transform.ErrShortDst
		}
		if len(src)-nSrc < 2 {
			if !atEOF {
				return nDst, nSrc, transform.ErrShortSrc
			}
			dst[nDst] = 0xff // half a code unit: the file is truncated
			return nDst + 1, nSrc + 1, nil
		}
		r, size := rune(w.order.Uint16(src[nSrc:])), 2
		if utf16.IsSurrogate(r) {
			if len(src)-nSrc < 4 && !atEOF {
				return nDst, nSrc, transform.ErrShortSrc
			}
			whole := utf8.RuneError
			if len(src)-nSrc >= 4 {
				whole = utf16.DecodeRune(r, rune(w.order.Uint16(src[nSrc+2:])))
			}
			if whole == utf8.RuneError { // the bytes that UTF-8 would use if it allowed surrogates
				nDst += copy(dst[nDst:], []byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f})
				nSrc += 2
				continue
			}
			r, size = whole, 4
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
		nSrc += size
	}
	return nDst, nSrc, nil
}

// dialect describes the syntax of a CSV file.
type dialect struct {
	comma rune
	// sep: the file begins with Excel's sep= line.
	sep bool
}

// delimiters are the delimiters to detect, the most likely first.
var delimiters = []rune{',', ';', '\t', '|'}

// parseDelimiter reads the name of a delimiter: one character, or "tab".
func parseDelimiter(name string) (rune, error) {
	if name == "tab" || name == `\t` {
		return '\t', nil
	}
	if r := []rune(name); len(r) == 1 && !strings.ContainsRune("\"\r\n\ufffd", r[0]) {
		return r[0], nil
	}
	return 0, fmt.Errorf("%q is not one character or the word tab", name)
}

// detect detects the dialect from the first lines. It consumes a sep= line and
// nothing else. header is the line of the row that names the columns; 0 = the first with content.
func detect(r *bufio.Reader, given rune, header int) (dialect, error) {
	head, _ := r.Peek(r.Size())
	d := dialect{comma: given}
	start := strings.TrimLeft(string(head), " \r\n")
	line, _, _ := strings.Cut(start, "\n")
	line = strings.TrimSuffix(line, "\r")
	if sep, ok := cutPrefixFold(strings.Trim(line, `"`), "sep="); ok && len(start) == len(head) && len([]rune(sep)) == 1 {
		d.sep = true
		if d.comma == 0 {
			comma, err := parseDelimiter(sep)
			if err != nil {
				return d, fmt.Errorf("the line %q: %w", line, err)
			}
			d.comma = comma
		}
		if _, err := r.ReadString('\n'); err != nil {
			return d, nil // the file ends here; reading the header reports that
		}
	}
	if d.comma == 0 {
		above := string(head)
		for range header - 1 { // what is above the header may be a title
			if _, below, found := strings.Cut(above, "\n"); found {
				above = below
			}
		}
		if header > 1 {
			start = above
		}
		d.comma = likeliest(start)
	}
	return d, nil
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// likeliest returns the most frequent delimiter in the header, outside quotes.
func likeliest(head string) rune {
	counts := make(map[rune]int)
	quoted := false
	for _, r := range head {
		if r == '"' {
			quoted = !quoted
		}
		if r == '\n' && !quoted {
			break
		}
		if !quoted {
			counts[r]++
		}
	}
	best := delimiters[0]
	for _, d := range delimiters {
		if counts[d] > counts[best] {
			best = d
		}
	}
	return best
}
