package importer

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// chunkRows is the number of rows that pass the pipeline together. They are published
// as one atomic batch.
const chunkRows = 500

// chunkText bounds the text of a chunk. A hostile file may have only the longest rows.
const chunkText = 512 << 10

// chunk is a piece of the file. err ends the file after its rows.
type chunk struct {
	rows []Row
	err  error
}

// scan reads the rows of the file and passes them to visit in order and in chunks.
// Reading, encoding and visit run concurrently ([ordered]). Memory holds only a few chunks. It
// returns the table with every error except those of the header.
func (f *File) scan(ctx context.Context, visit func(rows []Row) error) (*table, error) {
	t, closeTable, err := openTable(f.content, &f.o, &f.book)
	defer closeTable()
	if err != nil {
		return nil, err
	}
	t.past, t.until = f.o.Past, f.o.Deadline
	if err := t.arrange(f.o.Mapping); err != nil {
		return nil, err
	}
	if f.head == nil {
		f.head = t
	}
	return t, ordered(ctx, 2*runtime.GOMAXPROCS(0)+2, func(ctx context.Context, submit func(func(context.Context) (chunk, error)) error) error {
		for {
			records, ended := t.readChunk()
			if err := submit(func(context.Context) (chunk, error) {
				e := &encoder{t: t, batch: f.Batch, template: f.o.Mapping.OrderNoTemplate, schema: f.o.Schema, broken: f.broken}
				c := chunk{rows: make([]Row, len(records)), err: ended}
				for i, rec := range records {
					c.rows[i] = e.row(rec)
				}
				return c, nil
			}); err != nil || ended != nil {
				return err
			}
		}
	}, func(c chunk) error {
		if err := visit(c.rows); err != nil || errors.Is(c.err, io.EOF) {
			return err
		}
		return c.err
	})
}

// readChunk reads the next records of the file. ended says why there are no more.
func (t *table) readChunk() (records []record, ended error) {
	records = make([]record, 0, chunkRows)
	for size := 0; len(records) < chunkRows && size < chunkText; {
		rec, err := t.next()
		if err != nil {
			return records, err
		}
		for _, cell := range rec.cells {
			size += len(cell)
		}
		records = append(records, rec)
	}
	return records, nil
}

// ordered runs the jobs that feed submits, at most n at once. It passes their results
// to apply in the order of submission. It stops at the first error and returns it.
func ordered[T any](ctx context.Context, n int, feed func(ctx context.Context, submit func(job func(context.Context) (T, error)) error) error, apply func(T) error) error {
	type future struct {
		value T
		err   error
		done  chan struct{}
	}
	all, ctx := errgroup.WithContext(ctx)
	queue := make(chan *future, max(n-2, 0)) // one more job is being submitted, and one result is being applied
	all.Go(func() error {
		defer close(queue)
		return feed(ctx, func(job func(context.Context) (T, error)) error {
			f := &future{done: make(chan struct{})}
			select {
			case queue <- f:
			case <-ctx.Done():
				return ctx.Err()
			}
			all.Go(func() error {
				defer close(f.done)
				f.value, f.err = job(ctx)
				return nil
			})
			return nil
		})
	})
	all.Go(func() error {
		for f := range queue {
			<-f.done
			if f.err != nil {
				return f.err
			}
			if err := apply(f.value); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return all.Wait()
}

// duplicates finds repeated order numbers. It sorts entries of a 128-bit hash and a line
// in memory. For a billion rows, the probability that two different numbers share a hash
// is below 10^-20.
//
// Memory is bounded: if the order numbers become too many, duplicates keeps those of every
// second hash, and looks for the others in another pass over the rows.
type duplicates struct {
	seeds   [2]maphash.Seed
	entries [256][]entry // by the first byte of the hash: small slices leave little garbage as they grow
	held    int          // all of entries
	limit   int          // entries that duplicates holds, or little more
	room    int          // entries until the next look
	// Of the hashes, this pass keeps those that are share modulo shares. A pass for each
	// share sees every row once.
	share, shares uint64

	count int         // how many rows repeat an earlier order number
	lines set         // their lines
	first map[int]int // repeating line to first line
}

type entry struct {
	hi, lo uint64
	line   int
}

// maxEntries is 96 MiB of entries.
var maxEntries = 4 << 20

// maxFirst bounds the entries of duplicates.first.
const maxFirst = 10_000

func newDuplicates() *duplicates {
	return &duplicates{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, limit: maxEntries, room: maxEntries, shares: 1, first: make(map[int]int)}
}

// has reports whether the row in this line repeats an order number.
func (d *duplicates) has(line int) bool { return d.lines.has(line) }

// firstLine returns the line in which a repeated order number occurs first, or 0 if
// that is not remembered.
func (d *duplicates) firstLine(line int) int { return d.first[line] }

func (d *duplicates) add(orderNo string, line int) {
	e := entry{maphash.String(d.seeds[0], orderNo), maphash.String(d.seeds[1], orderNo), line}
	if !d.keeps(e) {
		return
	}
	at := &d.entries[e.hi>>56]
	*at = append(*at, e)
	if d.room--; d.room > 0 {
		return
	}
	d.look()
	for d.share == 0 && d.held > d.limit*3/4 { // only the first pass finds out how many shares there are
		d.shares *= 2
		d.each(func(list []entry) []entry { return slices.DeleteFunc(list, func(e entry) bool { return !d.keeps(e) }) })
	}
	d.room = max(d.limit-d.held, d.limit/2)
}

func (d *duplicates) keeps(e entry) bool { return e.hi%d.shares == d.share }

// each replaces all entries, those with the same first byte together.
func (d *duplicates) each(replace func([]entry) []entry) {
	d.held = 0
	for i, list := range d.entries {
		d.entries[i] = replace(list)
		d.held += len(d.entries[i])
	}
}

// look finds the repetitions among the entries, and keeps the first entry of each order
// number.
func (d *duplicates) look() { d.each(d.firsts) }

func (d *duplicates) firsts(list []entry) []entry {
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(a.line, b.line))
	})
	firsts := list[:0]
	for _, e := range list {
		n := len(firsts)
		if n == 0 || firsts[n-1].hi != e.hi || firsts[n-1].lo != e.lo {
			firsts = append(firsts, e)
			continue
		}
		if d.lines.has(e.line) { // found in an earlier pass, which had a larger share then
			continue
		}
		d.count++
		d.lines.add(e.line)
		if len(d.first) < maxFirst {
			d.first[e.line] = firsts[n-1].line
		}
	}
	return firsts
}

// find finds the repetitions of this pass. It reports whether another pass is needed.
func (d *duplicates) find() (more bool) {
	d.look()
	d.each(func(list []entry) []entry { return list[:0] })
	d.room = d.limit
	if d.share++; d.share < d.shares {
		return true
	}
	d.entries = [256][]entry{}
	return false
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
