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

// ErrChanged means that the file changed after it was opened or checked. An import
// never uses a row that was not checked.
var ErrChanged = errors.New("the file changed after it was checked")

// proof detects changes of the file between readings. It holds a hash of the file's
// bytes, which Check compares, and a hash of each chunk of rows. Later readings
// compare a chunk before they use it. The seed is random, so nobody can construct a
// collision.
type proof struct {
	seed    maphash.Seed
	content uint64
	reading *maphash.Hash // of the check in progress
	sums    []uint64      // of the chunks
	checked bool          // sums are complete
}

func changed(file string, rows int) error {
	return fmt.Errorf("%s: %w: it differs after row %d", file, ErrChanged, rows)
}

// begin makes the next reading the reference for later ones.
func (p *proof) begin() {
	p.sums, p.checked, p.reading = p.sums[:0], false, &maphash.Hash{}
	p.reading.SetSeed(p.seed)
}

// reader hashes what a check reads.
func (p *proof) reader(content io.Reader) io.Reader {
	if p.reading == nil {
		return content
	}
	return io.TeeReader(content, p.reading)
}

// sum returns the hash of a chunk. The first chunk includes the header.
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

// check compares the nth chunk with the checked one. behind is the number of rows
// before it.
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

// failed returns ErrChanged for a bad row in a file that was good before. It returns
// any other error, such as a failed read, unchanged.
func (p *proof) failed(file string, behind int, err error) error {
	var bad *RowError
	if p.checked && errors.As(err, &bad) {
		return changed(file, behind)
	}
	return err
}

// ended compares the bytes that the check read with those that Open read.
func (p *proof) ended(file string, content io.Reader) error {
	if p.reading == nil {
		return nil
	}
	if _, err := io.Copy(p.reading, content); err != nil { // bytes after the end of the compressed data
		return fmt.Errorf("%s: %w", file, err)
	}
	sum := p.reading.Sum64()
	if p.reading = nil; sum != p.content {
		return fmt.Errorf("%s: the file changed while it was read (somebody writes it); run the command again when it is complete", file)
	}
	p.checked = true
	return nil
}
