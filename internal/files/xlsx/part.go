package xlsx

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/flate"
)

const (
	// maxDirectory bounds what is read of an archive to list its parts.
	maxDirectory = 4 << 20
	// maxSmallPart bounds what a part unpacks to that describes the workbook.
	maxSmallPart = 32 << 20
	// maxLargePart bounds what a sheet, or the shared strings, unpack to. A million rows of
	// orders are about 400 MiB.
	maxLargePart = 4 << 30
)

// Damaged is the error of a workbook that breaks its own format.
type Damaged struct {
	// Part is the part of the archive; "" = the archive itself.
	Part string
	Err  error
}

// Error says what is damaged and what to do.
func (e *Damaged) Error() string {
	what := "the workbook (or zip archive) is damaged"
	if e.Part != "" {
		what = "the workbook is damaged (in its part " + e.Part + ")"
	}
	why := e.Err.Error()
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		why = "it ends in the middle"
	} else if errors.Is(e.Err, zip.ErrChecksum) {
		why = "its checksum is wrong"
	}
	return what + ": " + why + "; copy it again, or open it in a spreadsheet and save it anew"
}

// Unwrap returns the cause.
func (e *Damaged) Unwrap() error { return e.Err }

// ErrDirectory is the error of a zip archive with far more files than one of orders has.
var ErrDirectory = errors.New("the directory is too long")

// Directory lists the files in a zip archive in bounded memory.
func Directory(r io.ReaderAt, size int64) (*zip.Reader, error) {
	b := &bounder{r: r, left: maxDirectory}
	archive, err := zip.NewReader(b, size)
	b.left = -1
	return archive, err
}

// bounder bounds how much is read while left is not negative.
type bounder struct {
	r    io.ReaderAt
	left int64
}

// ReadAt implements io.ReaderAt.
func (b *bounder) ReadAt(p []byte, off int64) (int, error) {
	if b.left >= 0 {
		if b.left -= int64(len(p)); b.left < 0 {
			b.left = 0
			return 0, ErrDirectory
		}
	}
	return b.r.ReadAt(p, off)
}

// source is the file of a workbook. It remembers that it could not be read, which is no
// fault of the workbook.
type source struct {
	r      io.ReaderAt
	failed error
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// part is a part that is being read.
type part struct {
	b    *Book
	name string
	r    io.ReadCloser
	left int64
}

var errTooLarge = errors.New("too large")

// openPart opens a part. nil means that the workbook has none of this name.
func (b *Book) openPart(name string, limit int64) (*part, error) {
	f := b.parts[partKey(name)]
	if f == nil {
		return nil, nil
	}
	if f.Flags&1 != 0 {
		return nil, errors.New("the workbook is packed with a password; unpack it, and save it without one")
	}
	r, err := f.Open()
	if err != nil {
		return nil, b.blame(name, err)
	}
	return &part{b: b, name: name, r: r, left: limit}, nil
}

// Read implements io.Reader.
func (p *part) Read(buf []byte) (int, error) {
	if p.left <= 0 {
		return 0, fmt.Errorf("%w: the part %s of the workbook unpacks to more than its limit, which no file of orders does (a zip bomb?)", errTooLarge, p.name)
	}
	n, err := p.r.Read(buf[:min(int64(len(buf)), p.left)])
	p.left -= int64(n)
	return n, err
}

// Close closes the part. A decompressor says once more what Read said: that is no error of
// closing.
func (p *part) Close() error {
	_ = p.r.Close()
	return nil
}

// blame returns an error of reading a part for people.
func (b *Book) blame(part string, err error) error {
	var damaged *Damaged
	switch {
	case err == nil:
		return nil
	case b.source.failed != nil:
		return b.source.failed
	case errors.Is(err, errTooLarge), errors.Is(err, errNoRoom), errors.Is(err, errMacros), errors.As(err, &damaged):
		return err
	}
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		err = errors.New("its packed data cannot be read")
	}
	return &Damaged{part, err}
}

// each reads a small part and passes its start tags to visit, with the number of elements
// around them. A part that is not there has none.
func (b *Book) each(name string, visit func(depth int, tag string, attrs map[string]string) error) error {
	p, err := b.openPart(name, maxSmallPart)
	if err != nil || p == nil {
		return err
	}
	defer func() { _ = p.Close() }()
	s := newScanner(p)
	for {
		t, err := s.nextStart()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return b.blame(name, err)
		}
		tag := string(t.name)
		attrs, err := s.attributes(t.attrs)
		if err == nil {
			err = visit(s.depth()-1, tag, attrs)
		}
		if err != nil {
			return b.blame(name, err)
		}
	}
}

// relation is a link from one part to another.
type relation struct{ kind, target string }

// relationOf returns the link of an element: that of its attribute id of the namespace of links,
// whatever prefix that has.
func relationOf(attrs map[string]string, relations map[string]relation) (of relation) {
	for name, value := range attrs {
		if r, known := relations[value]; known && strings.HasSuffix(name, ":id") {
			of = r
		}
	}
	return of
}

// relations reads the links of a part, by their ids. The links of links are never read.
func (b *Book) relations(of string) (map[string]relation, error) {
	out := make(map[string]relation)
	dir, file := path.Split(of)
	name := path.Join(dir, "_rels", file+".rels")
	err := b.each(name, func(_ int, tag string, attrs map[string]string) error {
		if tag != "Relationship" || attrs["TargetMode"] == "External" {
			return nil
		}
		target := attrs["Target"]
		if strings.HasPrefix(target, "/") {
			target = strings.TrimPrefix(target, "/")
		} else {
			target = path.Join(dir, target)
		}
		out[attrs["Id"]] = relation{path.Base(attrs["Type"]), target}
		return nil
	})
	return out, err
}

// partKey is a part's name as it is compared.
func partKey(name string) string {
	return strings.ToLower(path.Clean(strings.TrimPrefix(strings.ReplaceAll(name, `\`, "/"), "/")))
}
