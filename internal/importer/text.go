package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// The encodings of files.
const (
	EncodingAuto = "auto"
	UTF8         = "utf-8"
	UTF16LE      = "utf-16le"
	UTF16BE      = "utf-16be"
	Windows1252  = "windows-1252"
)

// Encodings lists the encodings.
func Encodings() []string { return []string{EncodingAuto, UTF8, UTF16LE, UTF16BE, Windows1252} }

var utf8BOM = []byte("\ufeff")

// text is a file's content as UTF-8 without byte order mark.
type text struct {
	io.Reader
	// bom says that the file began with a byte order mark.
	bom bool
	// encoding returns the encoding. A guess is final only after the last byte.
	encoding func() (name string, guessed bool)
}

// decode converts content to UTF-8. want is one of [Encodings]. A byte order mark
// takes precedence over want. Without both, decode assumes UTF-8 until the first byte
// beyond ASCII.
func decode(file string, content io.Reader, want string) (*text, error) {
	head := make([]byte, 4)
	n, err := io.ReadFull(content, head)
	if err != nil && n == 0 && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	head = head[:n]
	rest := io.MultiReader(bytes.NewReader(head), content)
	fixed := func(name string) func() (string, bool) { return func() (string, bool) { return name, false } }
	wide := func(order binary.ByteOrder, name string, bom bool) (*text, error) {
		if bom {
			rest = io.MultiReader(bytes.NewReader(head[2:]), content)
		}
		return &text{Reader: transform.NewReader(rest, utf16Decoder{order: order}), bom: bom, encoding: fixed(name)}, nil
	}
	switch {
	case bytes.HasPrefix(head, utf8BOM):
		return &text{Reader: io.MultiReader(bytes.NewReader(head[len(utf8BOM):]), content), bom: true, encoding: fixed(UTF8)}, nil
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
		return &text{Reader: rest, encoding: fixed(UTF8)}, nil
	case UTF16LE:
		return wide(binary.LittleEndian, UTF16LE, false)
	case UTF16BE:
		return wide(binary.BigEndian, UTF16BE, false)
	case Windows1252:
		g := &guesser{r: rest, mode: Windows1252}
		return &text{Reader: g, encoding: fixed(Windows1252)}, nil
	case EncodingAuto, "":
		g := &guesser{r: rest}
		return &text{Reader: g, encoding: g.encoding}, nil
	default:
		return nil, fmt.Errorf("encoding %q is none of %s", want, strings.Join(Encodings(), ", "))
	}
}

// guesser reads UTF-8 or Windows-1252. It decides at the first byte beyond ASCII: if
// no valid UTF-8 sequence begins there, the file is Windows-1252. Both encodings are
// equal up to that byte, so it reads nothing twice.
type guesser struct {
	r       io.Reader
	mode    string // "" = only ASCII so far
	guessed bool

	raw    []byte // read but not decoded
	out    []byte // decoded but not returned
	offset int64  // of raw in the file
	err    error
}

func (g *guesser) encoding() (string, bool) {
	if g.mode == "" {
		return UTF8, false
	}
	return g.mode, g.guessed
}

// Read implements io.Reader.
func (g *guesser) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(g.out) == 0 {
		if g.err != nil {
			if len(g.raw) == 0 {
				return 0, g.err
			}
		} else {
			g.fill()
		}
		g.decode()
	}
	n := copy(p, g.out)
	g.out = g.out[n:]
	return n, nil
}

func (g *guesser) fill() {
	buf := make([]byte, 32<<10)
	n, err := g.r.Read(buf)
	g.raw = append(g.raw, buf[:n]...)
	g.err = err
}

// decode decodes as much of raw as possible to out.
func (g *guesser) decode() {
	if g.mode == "" {
		at := bytes.IndexFunc(g.raw, func(r rune) bool { return r >= utf8.RuneSelf })
		switch {
		case at < 0:
			g.take(len(g.raw))
			return
		case at > 0:
			g.take(at)
			return
		case g.err == nil && !utf8.FullRune(g.raw):
			return // the rest of the character is still to come
		}
		g.mode = UTF8
		if r, size := utf8.DecodeRune(g.raw); r == utf8.RuneError && size == 1 {
			g.mode, g.guessed = Windows1252, true
		}
	}
	if g.mode == UTF8 {
		g.take(len(g.raw)) // the check of its cell finds an invalid byte
		return
	}
	g.decodeWindows1252()
}

func (g *guesser) take(n int) {
	g.out, g.raw, g.offset = g.raw[:n:n], g.raw[n:], g.offset+int64(n)
}

// decodeWindows1252 decodes Windows-1252. It returns an error for the five bytes that
// the encoding does not define, because the file must have another encoding.
func (g *guesser) decodeWindows1252() {
	for i, b := range g.raw {
		switch b {
		case 0x81, 0x8d, 0x8f, 0x90, 0x9d:
			g.err = advise(fmt.Sprintf("byte 0x%02X at offset %d is no character in %s; save the file as UTF-8, or name its encoding",
				b, g.offset+int64(i), Windows1252), " (--encoding)")
			g.raw = nil
			return
		}
	}
	g.offset += int64(len(g.raw))
	g.out, _ = charmap.Windows1252.NewDecoder().Bytes(g.raw) // every other byte is a character
	g.raw = nil
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
