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

// chunk is a piece of the file on its way through the pipeline.
type chunk struct {
	records []record
	rows    []Row
	err     error // ends the file after these rows
	sum     uint64
	done    chan struct{}
}

// scan reads the rows of the file and passes them to visit in order and in chunks.
// Reading, encoding and visit run concurrently. Memory holds only a few chunks. scan
// returns ErrChanged before it passes on rows that differ from the checked ones. It
// returns the table with every error except those of the header.
func (f *File) scan(ctx context.Context, visit func(rows []Row) error) (*table, error) {
	if _, err := f.content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	unpacked, closeContent, err := Unpack(f.o.File, f.proof.reader(f.content))
	defer closeContent()
	if err != nil {
		return nil, f.proof.failed(f.o.File, 0, err)
	}
	t, err := newTable(unpacked, &f.o)
	if err != nil {
		return nil, f.proof.failed(f.o.File, 0, err)
	}
	if f.proof.reading != nil {
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
			e := &encoder{t: t, batch: f.Batch, template: f.o.Mapping.OrderNoTemplate}
			for c := range work {
				c.sum = f.proof.sum(t, c.records)
				for _, rec := range c.records {
					c.rows = append(c.rows, e.row(rec))
				}
				close(c.done)
			}
			return nil
		})
	}
	all.Go(func() error {
		n, behind := 0, 0
		for c := range ordered {
			<-c.done
			if err := f.proof.check(f.o.File, n, behind, c); err != nil {
				return err
			}
			n, behind = n+1, behind+len(c.rows)
			if err := visit(c.rows); err != nil {
				return err
			}
			if c.err != nil {
				return c.err
			}
		}
		return ctx.Err()
	})
	err = all.Wait()
	if err == nil {
		err = f.proof.ended(f.o.File, f.content)
	}
	return t, err
}

// readChunks reads the file in chunks until its end or until ctx ends.
func (t *table) readChunks(ctx context.Context, work, ordered chan<- *chunk) error {
	for ended := false; !ended; {
		c := &chunk{records: make([]record, 0, chunkRows), rows: make([]Row, 0, chunkRows), done: make(chan struct{})}
		for len(c.records) < chunkRows {
			rec, err := t.next()
			if err != nil {
				ended = true
				if !errors.Is(err, io.EOF) {
					c.err = err
				}
				break
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
