package xlsx

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// stringTable is the table of the texts that cells share. It reads the table as far as
// cells ask for, keeps its beginning in memory and the rest in a temporary file. Cells ask
// mostly in the order of the table, so a small cache is enough.
type stringTable struct {
	b    *Book
	part string // "" = there is none

	r     *part
	s     *scanner
	ended bool

	starts [][]uint32 // where each text begins, in pieces of startsPiece
	n      int        // texts read
	size   int64      // their length

	kept  [][]byte // the first blocks
	tail  []byte   // the last block, not full yet
	file  *os.File // the blocks between
	cache []cached
	text  []byte
}

type cached struct {
	block int // 0 = empty: the first block is always kept
	data  []byte
}

const (
	blockSize   = 8 << 10
	keptBlocks  = 512  // 4 MiB
	cacheSlots  = 1024 // 8 MiB
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
	for from < to {
		data, err := t.block(int(from / blockSize))
		if err != nil {
			return dst, err
		}
		piece := data[from%blockSize:]
		piece = piece[:min(int64(len(piece)), to-from)]
		dst = append(dst, piece...)
		from += int64(len(piece))
	}
	return dst, nil
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

// write appends a text to the blocks.
func (t *stringTable) write(text []byte) error {
	for len(text) > 0 {
		if t.tail == nil {
			t.tail = make([]byte, 0, blockSize)
		}
		n := min(blockSize-len(t.tail), len(text))
		t.tail, text = append(t.tail, text[:n]...), text[n:]
		t.size += int64(n)
		if len(t.tail) < blockSize {
			return nil
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush puts the full tail to the other blocks.
func (t *stringTable) flush() error {
	block := int(t.size/blockSize) - 1
	if block < keptBlocks {
		t.kept, t.tail = append(t.kept, t.tail), nil
		return nil
	}
	if t.file == nil {
		var err error
		if t.file, err = os.CreateTemp(t.b.temp, ".sheet-*"); err != nil {
			return fmt.Errorf("%w for the texts of the workbook: %w", errNoRoom, err)
		}
		_ = os.Remove(t.file.Name()) // the file goes with the program; where that fails, close removes it
		t.cache = make([]cached, cacheSlots)
	}
	if _, err := t.file.WriteAt(t.tail, int64(block-keptBlocks)*blockSize); err != nil {
		return fmt.Errorf("%w for the texts of the workbook: %w; make some there, or set TMPDIR to a folder with more", errNoRoom, err)
	}
	slot := &t.cache[block%cacheSlots]
	slot.block, slot.data, t.tail = block, t.tail, slot.data[:0]
	if cap(t.tail) == 0 {
		t.tail = nil
	}
	return nil
}

func (t *stringTable) block(block int) ([]byte, error) {
	switch {
	case block < len(t.kept):
		return t.kept[block], nil
	case block == int(t.size/blockSize):
		return t.tail, nil
	}
	slot := &t.cache[block%cacheSlots]
	if slot.block == block {
		return slot.data, nil
	}
	if slot.data == nil {
		slot.data = make([]byte, blockSize)
	}
	slot.block, slot.data = 0, slot.data[:blockSize]
	if _, err := t.file.ReadAt(slot.data, int64(block-keptBlocks)*blockSize); err != nil {
		return nil, err
	}
	slot.block = block
	return slot.data, nil
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
