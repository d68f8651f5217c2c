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

// unpack decompresses the content if it is compressed. close is never nil.
func unpack(file string, r io.Reader) (content io.Reader, close func(), err error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	head, _ := buffered.Peek(sniffed)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, func() {}, fmt.Errorf("%s: not readable as gzip: %w", file, err)
		}
		return &compressed{file: file, format: "gzip", r: z}, func() { _ = z.Close() }, nil
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, func() {}, fmt.Errorf("%s: not readable as zstd: %w", file, err)
		}
		return &compressed{file: file, format: "zstd", r: z}, z.Close, nil
	}
	return buffered, func() {}, NotText(file, head)
}

// compressed is a decompressor whose errors tell the user what to do.
type compressed struct {
	file, format string
	r            io.Reader
}

// Read implements io.Reader.
func (p *compressed) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	switch {
	case err == nil, errors.Is(err, io.EOF):
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the %s data ends in the middle: the file is cut off (or something short was appended to it); copy it again", p.format)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrMagicMismatch):
		err = fmt.Errorf("other bytes stand behind the %s data: the file is damaged, or something was appended to it; unpack it, look at its end, and import that", p.format)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		err = fmt.Errorf("the %s data is damaged, its checksum is wrong; copy the file again", p.format)
	}
	return n, err
}
