package importer

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
)

// duplicates finds repeated order numbers in bounded memory, with an external merge
// sort. It sorts entries of a 128-bit hash and a line in runs on disk and merges the
// runs. For a billion rows, the probability that two different numbers share a hash
// is below 10^-20.
type duplicates struct {
	seeds [2]maphash.Seed
	run   []entry
	limit int // entries of a run

	dir   string
	spill *os.File
	drop  func()  // removes spill
	ends  []int64 // of the runs in spill, in bytes

	lines set         // the lines that repeat an earlier order number
	first map[int]int // repeating line to first line
}

type entry struct {
	hi, lo uint64
	line   uint64
}

const (
	entrySize = 24
	// runEntries is 6 MB of entries.
	runEntries = 256 << 10
	// maxFirst bounds the entries of duplicates.first.
	maxFirst = 10_000
)

func newDuplicates(dir string) *duplicates {
	return &duplicates{dir: dir, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, limit: runEntries, first: make(map[int]int)}
}

// has reports whether the row in this line repeats an order number.
func (d *duplicates) has(line int) bool { return d.lines.has(line) }

// firstLine returns the line in which a repeated order number occurs first, or 0 if
// that is not remembered.
func (d *duplicates) firstLine(line int) int { return d.first[line] }

func (d *duplicates) add(orderNo string, line int) error {
	d.run = append(d.run, entry{maphash.String(d.seeds[0], orderNo), maphash.String(d.seeds[1], orderNo), uint64(line)})
	if len(d.run) < d.limit {
		return nil
	}
	return d.writeRun()
}

func (d *duplicates) close() {
	if d.spill != nil {
		d.drop()
		d.spill = nil
	}
	d.run = nil
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(a.line, b.line))
}

func (d *duplicates) writeRun() (err error) {
	if d.spill == nil {
		if d.spill, d.drop, err = TempFile(d.dir); err != nil {
			return fmt.Errorf("looking for duplicates: %w", err)
		}
	}
	slices.SortFunc(d.run, compareEntries)
	w := bufio.NewWriterSize(d.spill, 64<<10)
	var buf [entrySize]byte
	for _, e := range d.run {
		binary.LittleEndian.PutUint64(buf[0:], e.hi)
		binary.LittleEndian.PutUint64(buf[8:], e.lo)
		binary.LittleEndian.PutUint64(buf[16:], e.line)
		_, _ = w.Write(buf[:]) // Flush reports it
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("looking for duplicates: %w", err)
	}
	end := int64(len(d.run)) * entrySize
	if n := len(d.ends); n > 0 {
		end += d.ends[n-1]
	}
	d.ends, d.run = append(d.ends, end), d.run[:0]
	return nil
}

// find finds the duplicates among all added rows and returns how many rows repeat an
// earlier one.
func (d *duplicates) find() (count int, err error) {
	defer d.close()
	var last entry
	any := false
	visit := func(e entry) {
		if any && e.hi == last.hi && e.lo == last.lo {
			count++
			d.lines.add(int(e.line))
			if len(d.first) < maxFirst {
				d.first[int(e.line)] = int(last.line)
			}
			return // last stays: the first occurrence
		}
		last, any = e, true
	}
	if d.spill == nil {
		slices.SortFunc(d.run, compareEntries)
		for _, e := range d.run {
			visit(e)
		}
		return count, nil
	}
	if err := d.writeRun(); err != nil {
		return 0, err
	}
	return count, d.merge(visit)
}

// merge merges the runs and passes their entries to visit in order.
func (d *duplicates) merge(visit func(entry)) error {
	var runs runHeap
	start := int64(0)
	for _, end := range d.ends {
		r := &run{r: bufio.NewReaderSize(io.NewSectionReader(d.spill, start, end-start), 16<<10)}
		start = end
		switch err := r.next(); {
		case err == nil:
			runs = append(runs, r)
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("looking for duplicates: %w", err)
		}
	}
	heap.Init(&runs)
	for len(runs) > 0 {
		visit(runs[0].head)
		switch err := runs[0].next(); {
		case err == nil:
			heap.Fix(&runs, 0)
		case errors.Is(err, io.EOF):
			heap.Pop(&runs)
		default:
			return fmt.Errorf("looking for duplicates: %w", err)
		}
	}
	return nil
}

// run is a sorted run on disk.
type run struct {
	r    *bufio.Reader
	head entry
}

func (r *run) next() error {
	var buf [entrySize]byte
	if _, err := io.ReadFull(r.r, buf[:]); err != nil {
		return err
	}
	r.head = entry{binary.LittleEndian.Uint64(buf[0:]), binary.LittleEndian.Uint64(buf[8:]), binary.LittleEndian.Uint64(buf[16:])}
	return nil
}

type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return compareEntries(h[i].head, h[j].head) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface; runs are only ever removed.
func (h *runHeap) Push(x any) { *h = append(*h, x.(*run)) }

// Pop implements heap.Interface.
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// set is a bit set of line numbers.
type set []uint64

func (s *set) add(n int) {
	for len(*s) <= n/64 {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

func (s set) has(n int) bool { return n/64 < len(s) && s[n/64]&(1<<(n%64)) != 0 }
