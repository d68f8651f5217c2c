package xlsx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// stringTable is the table of the texts that cells share. It reads the table as far as
// cells ask for, keeps the first texts in memory and the others in a temporary file. Cells ask
// mostly in the order of the table, so the system has what they ask for at hand.
type stringTable struct {
	b    *Book
	part string // "" = there is none

	r     *part
	s     *scanner
	ended bool

	starts [][]uint32 // where each text begins, in pieces of startsPiece
	n      int        // texts read
	size   int64      // their length

	kept    []byte   // the first texts
	file    *os.File // those behind them, up to written
	written int64
	tail    []byte // those that are not in the file yet
	text    []byte
}

const (
	keptSize    = 8 << 20
	tailSize    = 64 << 10
	startsPiece = 64 << 10
	// maxStrings bounds the texts, and so the memory for where they begin: 64 MiB.
	maxStrings = 16 << 20
)

var errNoRoom = errors.New("no room")

// append appends the text with this number.
func (t *stringTable) append(dst []byte, i int) ([]byte, error) {
	for i >= t.n && !t.ended {
		if err := t.read(); err != nil {
			return dst, t.b.blame(t.part, err)
		}
	}
	if i >= t.n {
		return dst, fmt.Errorf("has the text number %d, and there are %d", i, t.n)
	}
	from, to := t.start(i), t.size
	if i+1 < t.n {
		to = t.start(i + 1)
	}
	switch kept := int64(len(t.kept)); {
	case from == to:
		return dst, nil
	case from < kept:
		return append(dst, t.kept[from:to]...), nil
	case from >= t.written:
		return append(dst, t.tail[from-t.written:to-t.written]...), nil
	default:
		at := len(dst)
		dst = slices.Grow(dst, int(to-from))[:at+int(to-from)]
		_, err := t.file.ReadAt(dst[at:], from-kept)
		return dst, err
	}
}

func (t *stringTable) start(i int) int64 { return int64(t.starts[i/startsPiece][i%startsPiece]) }

// read reads the next text, or finds that there is none.
func (t *stringTable) read() (err error) {
	if t.s == nil {
		if t.part != "" {
			if t.r, err = t.b.openPart(t.part, maxLargePart); err != nil {
				return err
			}
		}
		if t.r == nil {
			t.ended = true
			return nil
		}
		t.s = newScanner(t.r)
	}
	for {
		tok, err := t.s.next()
		if errors.Is(err, io.EOF) {
			t.ended = true
			return nil
		} else if err != nil {
			return err
		}
		if tok.kind == startTag && t.s.depth() == 2 && string(tok.name) == "si" {
			break
		}
	}
	if t.n == maxStrings {
		return fmt.Errorf("%w: the cells of the workbook share more than %d texts", errTooLarge, maxStrings)
	}
	if text, ok := t.s.only("si", "<t>", "</t></si>"); ok {
		t.text = unescapeCharacters(append(t.text[:0], text...), 0)
	} else if t.text, err = readRich(t.s, t.text[:0]); err != nil {
		return err
	}
	if t.size+int64(len(t.text)) > maxLargePart-1 {
		return fmt.Errorf("%w: the texts of the workbook", errTooLarge)
	}
	if t.n%startsPiece == 0 {
		t.starts = append(t.starts, make([]uint32, startsPiece))
	}
	t.starts[t.n/startsPiece][t.n%startsPiece] = uint32(t.size)
	t.n++
	return t.write(t.text)
}

// readRich reads the text of an element whose start was read, without its formats and
// without the phonetic hints of East Asian languages.
func readRich(s *scanner, dst []byte) ([]byte, error) {
	begin, depth, inText, from := len(dst), s.depth(), false, 0
	for {
		t, err := s.next()
		if err != nil {
			return dst, err
		}
		switch {
		case t.kind == startTag && string(t.name) == "rPh":
			if err := s.skip(); err != nil {
				return dst, err
			}
		case t.kind == startTag && string(t.name) == "t":
			inText, from = true, len(dst)
		case t.kind == endTag && s.depth() < depth:
			return dst, nil
		case t.kind == endTag && inText:
			inText = false
			dst = unescapeCharacters(dst, from)
		case t.kind == charData && inText:
			if dst = append(dst, t.text...); len(dst)-begin > maxToken {
				return dst, fmt.Errorf("a text is longer than %d bytes", maxToken)
			}
		}
	}
}

// write keeps a text. No text is in two places.
func (t *stringTable) write(text []byte) error {
	t.size += int64(len(text))
	if t.file == nil && len(t.kept)+len(text) <= keptSize {
		t.kept = append(t.kept, text...)
		return nil
	}
	if t.file == nil {
		var err error
		if t.file, err = os.CreateTemp(t.b.temp, ".sheet-*"); err != nil {
			return fmt.Errorf("%w for the texts of the workbook: %w", errNoRoom, err)
		}
		_ = os.Remove(t.file.Name()) // the file goes with the program; where that fails, close removes it
		t.written = int64(len(t.kept))
	}
	if t.tail = append(t.tail, text...); len(t.tail) < tailSize {
		return nil
	}
	n, err := t.file.Write(t.tail)
	if err != nil {
		return fmt.Errorf("%w for the texts of the workbook: %w; make some there, or set TMPDIR to a folder with more", errNoRoom, err)
	}
	t.written, t.tail = t.written+int64(n), t.tail[:0]
	return nil
}

func (t *stringTable) close() (err error) {
	if t.r != nil {
		err = t.r.Close()
	}
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
		_ = os.Remove(t.file.Name()) // usually gone already
	}
	return err
}
