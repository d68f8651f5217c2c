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
