package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/bits"
	"strconv"
)

// ErrChanged is returned where the file is not the one that was opened or
// checked any more. No row that was not checked is ever passed on.
var ErrChanged = errors.New("the file changed after it was checked")

// proof holds what later readings of a file are compared with: a hash of its
// bytes, which the check compares, and one of each chunk of rows, which is
// compared before anything is done with the chunk. Nobody can aim at the
// hashes, whose seed is random.
type proof struct {
	seed    maphash.Seed
	content uint64
	reading *maphash.Hash // of a check that is under way
	sums    []uint64
	checked bool // sums are complete
}

func changed(file string, rows int) error {
	return fmt.Errorf("%s: %w: behind row %d it is not what it was", file, ErrChanged, rows)
}

// begin makes the next reading the one that others are compared with.
func (p *proof) begin() {
	p.sums, p.checked, p.reading = p.sums[:0], false, &maphash.Hash{}
	p.reading.SetSeed(p.seed)
}

// reader notes what a check reads.
func (p *proof) reader(content io.Reader) io.Reader {
	if p.reading == nil {
		return content
	}
	return io.TeeReader(content, p.reading)
}

// sum is the hash of a chunk, with the header before the first row.
func (p *proof) sum(t *table, records []record) uint64 {
	var h uint64
	mix := func(s string) { h = (bits.RotateLeft64(h, 5) ^ maphash.String(p.seed, s)) * 0x9e3779b97f4a7c15 }
	var line [8]byte
	for _, rec := range records {
		if rec.number == 1 && t.format == FormatCSV {
			mix(strconv.QuoteRune(t.dialect.comma))
			for _, name := range t.header {
				mix(name)
			}
		}
		binary.LittleEndian.PutUint64(line[:], uint64(rec.line))
		h = (h ^ maphash.Bytes(p.seed, line[:])) * 0x9e3779b97f4a7c15
		for _, cell := range rec.cells {
			mix(cell)
		}
	}
	return h
}

// check compares the nth chunk, which stands behind so many rows, with the one
// that was checked.
func (p *proof) check(file string, n, behind int, c *chunk) error {
	switch {
	case p.reading != nil:
		p.sums = append(p.sums, c.sum)
	case p.checked && (n >= len(p.sums) || p.sums[n] != c.sum):
		return changed(file, behind)
	case p.checked && c.err != nil:
		return p.failed(file, behind+len(c.rows), c.err)
	}
	return nil
}

// failed: what could be read once and cannot now has changed, unless it is the
// reading that failed.
func (p *proof) failed(file string, behind int, err error) error {
	var bad *RowError
	if p.checked && errors.As(err, &bad) {
		return changed(file, behind)
	}
	return err
}

// ended compares the bytes that a check has read with those of Open.
func (p *proof) ended(file string, content io.Reader) error {
	if p.reading == nil {
		return nil
	}
	if _, err := io.Copy(p.reading, content); err != nil { // behind the end of a compressed file
		return fmt.Errorf("%s: %w", file, err)
	}
	sum := p.reading.Sum64()
	if p.reading = nil; sum != p.content {
		return fmt.Errorf("%s: the file changed while it was read (somebody writes it); run the command again when it is complete", file)
	}
	p.checked = true
	return nil
}
