package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory for a zstd file.
const maxWindow = 32 << 20

// The first bytes tell the formats apart. The file's name does not matter.
var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// IsPacked reports whether a file that begins like this is one that Unpack
// decompresses.
func IsPacked(head []byte) bool {
	return bytes.HasPrefix(head, magicGzip) || bytes.HasPrefix(head, magicZstd)
}

// Unpack decompresses the content if it is compressed, as an import does. It refuses
// what is no text. close is never nil.
func Unpack(file string, r io.Reader) (content io.Reader, close func(), err error) {
	source := &source{r: r}
	buffered := bufio.NewReaderSize(source, 64<<10)
	head, _ := buffered.Peek(sniffed)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, func() {}, fmt.Errorf("%s: not readable as gzip: %w", file, err)
		}
		content, err = inside(file, &compressed{format: "gzip", source: source, r: z})
		return content, func() { _ = z.Close() }, err
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, func() {}, fmt.Errorf("%s: not readable as zstd: %w", file, err)
		}
		content, err = inside(file, &compressed{format: "zstd", source: source, r: z})
		return content, z.Close, err
	}
	return buffered, func() {}, NotText(file, head)
}

// inside looks at the beginning of what was compressed. An error there is returned by
// the next Read, too.
func inside(file string, r io.Reader) (io.Reader, error) {
	content := bufio.NewReaderSize(r, 64<<10)
	head, _ := content.Peek(sniffed)
	return content, NotText(file, head)
}

// compressed is a decompressor whose errors tell the user what to do.
type compressed struct {
	format string
	source *source
	r      io.Reader
}

// source remembers that it could not be read, which is no fault of what was compressed.
type source struct {
	r      io.Reader
	failed bool
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.failed = err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// Read implements io.Reader.
func (p *compressed) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	switch {
	case err == nil, errors.Is(err, io.EOF), p.source.failed:
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the %s data ends in the middle: the file is cut off (or something short was appended to it); copy it again", p.format)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrMagicMismatch):
		err = fmt.Errorf("other bytes stand behind the %s data: the file is damaged, or something was appended to it; unpack it, look at its end, and import that", p.format)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		err = fmt.Errorf("the %s data is damaged, its checksum is wrong; copy the file again", p.format)
	default:
		err = fmt.Errorf("the %s data is damaged (%w); copy the file again", p.format, err)
	}
	return n, err
}

// sniffed is the number of bytes at the beginning of a file that tell its kind.
const sniffed = 512

// foreign lists the beginnings of files that are not text, with what they are and what
// to do. The first match counts.
var foreign = []struct{ begin, what, todo string }{
	{"PK\x03\x04", "a spreadsheet or a zip archive", "unpack it, and import the workbook or the file in it by itself"},
	{"PK\x05\x06", "an empty zip archive", "put the CSV file itself here"},
	{"\xd0\xcf\x11\xe0", "an old Excel file (.xls), or a workbook with a password", "save it as a workbook (.xlsx) without a password, or as CSV (UTF-8), and import that"},
	{"%PDF", "a PDF", "a PDF has no rows; export the data as CSV where the PDF was made"},
	{"{\\rtf", "a document of a word processor (RTF)", "save it as plain text, or export the data as CSV"},
	{"SQLite format 3\x00", "an SQLite database", "export the table: sqlite3 -header -csv FILE 'SELECT ...'"},
	{"PAR1", "a Parquet file", "export it as CSV or NDJSON"},
	{"BZh", "compressed by bzip2", "unpack it (bunzip2), or compress it with gzip or zstd"},
	{"\xfd7zXZ\x00", "compressed by xz", "unpack it (unxz), or compress it with gzip or zstd"},
	{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it and import the file in it"},
	{"Rar!", "a RAR archive", "unpack it and import the file in it"},
	{"\x89PNG", "a picture (PNG)", "export the data as CSV"},
	{"\xff\xd8\xff", "a picture (JPEG)", "export the data as CSV"},
	{"GIF8", "a picture (GIF)", "export the data as CSV"},
	{"\x7fELF", "a program", "choose the file with the orders"},
	{"<!doctype html", "a web page", "perhaps a download that was a login page; download the file again"},
	{"<html", "a web page", "perhaps a download that was a login page; download the file again"},
	{"<?xml", "XML", "save the sheet as a workbook (.xlsx), or export the data as CSV or NDJSON"},
}

// NotText returns an error if a file that begins like this is certainly not text. The
// error says what the file is and what to do. The importer decompresses gzip and zstd:
// ask about the content.
func NotText(file string, head []byte) error {
	start := bytes.TrimLeft(bytes.TrimPrefix(head, utf8BOM), "\r\n\t ")
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.begin)) || f.begin[0] == '<' && len(start) >= len(f.begin) && bytes.EqualFold(start[:len(f.begin)], []byte(f.begin)) {
			return fmt.Errorf("%s: this is %s, not text; %s", file, f.what, f.todo)
		}
	}
	if isBinary(head) {
		return fmt.Errorf("%s: this is not text: it begins with bytes such as 0x%02X; export the data as CSV (UTF-8)", file, head[bytes.IndexFunc(head, isControl)])
	}
	return nil
}

// isBinary reports whether the beginning of a file has more control characters than
// text has. UTF-16 is text with a NUL in about every other byte.
func isBinary(head []byte) bool {
	if len(head) < 16 || bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) || head[0] == 0 != (head[1] == 0) {
		return false
	}
	n := 0
	for _, b := range head {
		if isControl(rune(b)) {
			n++
		}
	}
	return n*10 > len(head)
}

// isControl reports whether a byte is a control character that text does not have.
func isControl(r rune) bool { return r < ' ' && (r < '\t' || r > '\r') && r != 0x1b }
