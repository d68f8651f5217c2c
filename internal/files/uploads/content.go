package uploads

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// The files of an upload.
const (
	metaFile    = "upload.json"
	plainFile   = "content"
	packedFile  = "content.zst"
	archiveFile = "archive.zip"
	rejectsFile = "rejects.zst"
)

// maxWindow bounds the memory for unpacking.
const maxWindow = 8 << 20

// newPacker packs what is written to w.
func newPacker(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
}

// content is a kept file as the importer reads it, from its beginning each time.
type content struct {
	f      *os.File
	unpack *zstd.Decoder // nil = the file is as it came
	// moved receives the position in the current reading. It may be nil.
	// An error of it ends the reading.
	moved func(at int64) error
	at    int64
}

// open opens an upload's content.
func (s *Store) open(u *Upload, moved func(int64) error) (*content, error) {
	name := plainFile
	if u.Packed {
		name = packedFile
	}
	f, err := os.Open(filepath.Join(s.folder(u.ID), name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, s.gone(u.ID)
	} else if err != nil {
		return nil, err
	}
	c := &content{f: f, moved: moved}
	if u.Packed {
		if c.unpack, err = newUnpacker(f); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return c, nil
}

func newUnpacker(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (n int, err error) {
	if c.unpack != nil {
		n, err = c.unpack.Read(p)
	} else {
		n, err = c.f.Read(p)
	}
	return c.passed(n, err)
}

// passed counts what was read.
func (c *content) passed(n int, err error) (int, error) {
	c.at += int64(n)
	if c.moved != nil {
		if stopped := c.moved(c.at); stopped != nil {
			return n, stopped
		}
	}
	return n, err
}

// ReadAt implements io.ReaderAt, for workbooks.
func (c *content) ReadAt(p []byte, off int64) (n int, err error) {
	if c.unpack != nil {
		return 0, errors.New("a file that is kept packed can be read from its beginning only")
	}
	return c.passed(c.f.ReadAt(p, off))
}

// Seek goes back to the beginning, or to the end of a workbook. The importer asks for no
// other place.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	if offset == 0 && whence == io.SeekEnd && c.unpack == nil {
		return c.f.Seek(0, io.SeekEnd)
	}
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("a kept file can be read again from its beginning only")
	}
	c.at = 0
	_, err := c.f.Seek(0, io.SeekStart)
	if err == nil && c.unpack != nil {
		err = c.unpack.Reset(c.f)
	}
	return 0, err
}

// Close closes the file.
func (c *content) Close() error {
	if c.unpack != nil {
		c.unpack.Close()
	}
	return c.f.Close()
}
