package importer

import (
	"context"
	"errors"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// chunkRows is the number of rows that pass the pipeline together. They are published
// as one atomic batch.
const chunkRows = 500

// chunkText bounds the text of a chunk. A hostile file may have only the longest rows.
const chunkText = 512 << 10

// chunk is a piece of the file on its way through the pipeline.
type chunk struct {
	records []record
	rows    []Row
	err     error // ends the file after these rows
	done    chan struct{}
}

// scan reads the rows of the file and passes them to visit in order and in chunks.
// Reading, encoding and visit run concurrently. Memory holds only a few chunks. It
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
	encoders := runtime.GOMAXPROCS(0)
	work, ordered := make(chan *chunk, encoders), make(chan *chunk, 2*encoders)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer close(ordered)
		defer close(work)
		return t.readChunks(ctx, work, ordered)
	})
	for range encoders {
		all.Go(func() error {
			e := &encoder{t: t, batch: f.Batch, template: f.o.Mapping.OrderNoTemplate, schema: f.o.Schema, broken: f.broken}
			for c := range work {
				for _, rec := range c.records {
					c.rows = append(c.rows, e.row(rec))
				}
				close(c.done)
			}
			return nil
		})
	}
	all.Go(func() error {
		for c := range ordered {
			<-c.done
			if err := visit(c.rows); err != nil {
				return err
			}
			if c.err != nil {
				return c.err
			}
		}
		return ctx.Err()
	})
	return t, all.Wait()
}

// readChunks reads the file in chunks until its end or until ctx ends.
func (t *table) readChunks(ctx context.Context, work, ordered chan<- *chunk) error {
	for ended := false; !ended; {
		c := &chunk{records: make([]record, 0, chunkRows), rows: make([]Row, 0, chunkRows), done: make(chan struct{})}
		for size := 0; len(c.records) < chunkRows && size < chunkText; {
			rec, err := t.next()
			if err != nil {
				ended = true
				if !errors.Is(err, io.EOF) {
					c.err = err
				}
				break
			}
			for _, cell := range rec.cells {
				size += len(cell)
			}
			c.records = append(c.records, rec)
		}
		select {
		case work <- c: // an encoder must get the chunk before visit waits for it
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case ordered <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
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
		return nil
	})
	return all.Wait()
}
