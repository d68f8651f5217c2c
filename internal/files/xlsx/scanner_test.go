package xlsx

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// piecesOf returns the pieces of XML as the scanner reads them, one a line, and whether the
// text is well formed for it. Character data that stands together is one piece.
func piecesOf(r io.Reader) (out []string, err error) {
	s := newScanner(r)
	text := ""
	for {
		t, err := s.next()
		if t.kind != charData || err != nil {
			if text != "" {
				out = append(out, "text "+text)
			}
			text = ""
		}
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, err
		case t.kind == startTag:
			piece := "start " + local(t.name)
			for attrs := t.attrs; ; {
				name, value, rest, err := attribute(attrs)
				if err != nil {
					return out, err
				}
				if name == nil {
					break
				}
				plain, err := s.unescape(value)
				if err != nil {
					return out, err
				}
				piece += " " + local(name) + "=" + string(plain)
				attrs = rest
			}
			out = append(out, piece)
		case t.kind == endTag:
			out = append(out, "end "+local(t.name))
		default:
			text += string(t.text)
		}
	}
}

// local returns a name without its prefix, as the standard library does.
func local(name []byte) string {
	if i := bytes.IndexByte(name, ':'); i > 0 && i < len(name)-1 {
		name = name[i+1:]
	}
	return string(name)
}

// standardPieces is piecesOf by the standard library.
func standardPieces(content []byte) (out []string, err error) {
	d := xml.NewDecoder(bytes.NewReader(content))
	text, depth := "", 0
	for {
		t, err := d.Token()
		_, isText := t.(xml.CharData)
		_, isComment := t.(xml.Comment)
		_, isInstruction := t.(xml.ProcInst)
		if !isText && !isComment && !isInstruction || err != nil {
			if text != "" && depth > 0 {
				out = append(out, "text "+text)
			}
			text = ""
		}
		switch t := t.(type) {
		case nil:
			if errors.Is(err, io.EOF) {
				return out, nil
			}
			return out, err
		case xml.StartElement:
			depth++
			piece := "start " + t.Name.Local
			for _, a := range t.Attr {
				piece += " " + a.Name.Local + "=" + a.Value
			}
			out = append(out, piece)
		case xml.EndElement:
			depth--
			out = append(out, "end "+t.Name.Local)
		case xml.CharData:
			if depth > 0 {
				text += string(t)
			}
		}
	}
}

var scanned = []string{
	`<?xml version="1.0" encoding="UTF-8"?><a><b c="1" d='2"'/><x:b xmlns:x="u">text &amp; &#65;&#x42;</x:b><!-- no <tag> --></a>`,
	"<a>one<![CDATA[ <two> ]]>three\r\nfour\rfive</a>\n",
	"<a><![CDATA[one\r\ntwo\rthree\r]]></a>",
	"<a  b = \"1 > 2\" ></a >",
	`<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData></worksheet>`,
}

// TestScanner: the standard library reads the same, however the pieces arrive.
func TestScanner(t *testing.T) {
	for _, content := range scanned {
		want, err := standardPieces([]byte(content))
		require.NoError(t, err)
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(content), "bytes": iotest.OneByteReader(strings.NewReader(content))} {
			got, err := piecesOf(r)
			require.NoError(t, err, "%s: %s", name, content)
			require.Equal(t, want, got, "%s: %s", name, content)
		}
		for i := range len(strings.TrimSpace(content)) - 1 { // wherever it is cut off
			_, err := piecesOf(strings.NewReader(content[:i]))
			require.Error(t, err, "%q", content[:i])
		}
	}
}

// TestScannerInUTF16: a part may be in UTF-16, with its mark.
func TestScannerInUTF16(t *testing.T) {
	const content = "\ufeff<?xml version=\"1.0\" encoding=\"UTF-16\"?><a b='ü'>€</a>"
	for _, big := range []bool{false, true} {
		var wide []byte
		for _, u := range utf16.Encode([]rune(content)) {
			if big {
				wide = append(wide, byte(u>>8), byte(u))
			} else {
				wide = append(wide, byte(u), byte(u>>8))
			}
		}
		for _, r := range []io.Reader{bytes.NewReader(wide), iotest.OneByteReader(bytes.NewReader(wide))} {
			got, err := piecesOf(r)
			require.NoError(t, err)
			require.Equal(t, []string{"start a b=ü", "text €", "end a"}, got)
		}
	}
}

// TestScannerRefuses: what a workbook never has is refused, in bounded memory.
func TestScannerRefuses(t *testing.T) {
	for content, want := range map[string]string{
		`<!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>`: "document type",
		"<a>&b;</a>":         "&b; is no reference",
		"<a>&#xD800;</a>":    "is no character",
		"<a>&#99999999;</a>": "is no character",
		"<a>& b</a>":         "not well formed",
		"<a><b></a></b>":     "not well formed",
		"<a/><b/>":           "not well formed",
		"<a b=1/>":           "not well formed",
		"<a b='1/>":          "unexpected EOF",
		"< a/>":              "not well formed",
		"text":               "not well formed",
		`<?xml version="1.0" encoding="UTF-16"?><a/>`:           "not in UTF-8",
		"\xff\xfe<\x00a\x00/\x00":                               "unexpected EOF",
		strings.Repeat("<a>", maxNesting+1):                     "not well formed",
		"<a>" + strings.Repeat("x", maxToken+1) + "</a>":        "is longer than",
		"<a b='" + strings.Repeat("x", maxToken+1) + "'/>":      "is longer than",
		"<a><!--" + strings.Repeat("x", maxToken+1) + "--></a>": "is longer than",
	} {
		_, err := piecesOf(strings.NewReader(content))
		require.ErrorContains(t, err, want, "%.80q", content)
	}
	_, err := piecesOf(iotest.ErrReader(errors.New("the disk is broken")))
	require.ErrorContains(t, err, "the disk is broken")
}

// FuzzScanner: what the scanner takes for well formed, and the standard library does too, is
// the same for both.
func FuzzScanner(f *testing.F) {
	for _, content := range scanned {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := piecesOf(bytes.NewReader(content))
		if err != nil {
			return
		}
		want, err := standardPieces(content)
		if err != nil { // it also judges names, characters and namespaces
			return
		}
		require.Equal(t, want, got)
	})
}
