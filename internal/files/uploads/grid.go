package uploads

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
)

// The rows of a checked upload are kept so that a page can show any of them at once: in blocks of gridBlock rows, each
// packed by itself, then the index of the blocks, packed too, and then the place of the index (8 bytes, big endian). A
// text file has no such places, and a workbook is read from its beginning.
const (
	gridFile  = "rows.zst"
	gridBlock = 200
	// gridLooked is how many rows Rows looks at for those with an outcome.
	gridLooked = 20_000
)

// gridIndex says what a file of rows has and where.
type gridIndex struct {
	Columns []importer.GridColumn `json:"columns"`
	Rows    int                   `json:"rows"`
	Bad     int                   `json:"bad"`
	Blocks  []gridPlace           `json:"blocks"`
}

// gridPlace is where a block ends, and how many of its rows are bad.
type gridPlace struct {
	End int64 `json:"end"`
	Bad int   `json:"bad,omitempty"`
}

// gridWriter writes a file of rows.
type gridWriter struct {
	w     io.Writer
	pack  *zstd.Encoder
	at    int64
	index gridIndex
	block []importer.GridRow
	bad   int // in block
}

func newGridWriter(w io.Writer, columns []importer.GridColumn) (*gridWriter, error) {
	pack, err := newPacker(nil)
	return &gridWriter{w: w, pack: pack, index: gridIndex{Columns: columns}}, err
}

func (g *gridWriter) add(row importer.GridRow) error {
	if g.index.Rows++; row.Code != "" {
		g.bad++
	}
	if g.block = append(g.block, row); len(g.block) < gridBlock {
		return nil
	}
	return g.flush()
}

// flush writes the block.
func (g *gridWriter) flush() error {
	if len(g.block) == 0 {
		return nil
	}
	if err := g.write(g.block); err != nil {
		return err
	}
	g.index.Blocks = append(g.index.Blocks, gridPlace{g.at, g.bad})
	g.index.Bad += g.bad
	g.block, g.bad = g.block[:0], 0
	return nil
}

func (g *gridWriter) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	n, err := g.w.Write(g.pack.EncodeAll(text, nil))
	g.at += int64(n)
	return err
}

// close writes what is left, and the index.
func (g *gridWriter) close() error {
	err := g.flush()
	at := g.at
	if err == nil {
		err = g.write(g.index)
	}
	if err == nil {
		_, err = g.w.Write(binary.BigEndian.AppendUint64(nil, uint64(at)))
	}
	return errors.Join(err, g.pack.Close())
}

// grid reads a file of rows.
type grid struct {
	f      *os.File
	unpack *zstd.Decoder
	gridIndex
}

func (d *Desk) openGrid(id string) (g *grid, err error) {
	f, err := os.Open(filepath.Join(d.store.folder(id), gridFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(Unready, "the file is not checked with these settings yet; check it first")
	} else if err != nil {
		return nil, err
	}
	g = &grid{f: f}
	defer func() {
		if err != nil {
			g.close()
			err = fmt.Errorf("the rows of upload %s: %w", id, err)
		}
	}()
	if g.unpack, err = newUnpacker(nil); err != nil {
		return g, err
	}
	end, err := f.Seek(-8, io.SeekEnd)
	if err != nil {
		return g, err
	}
	var at [8]byte
	if _, err = io.ReadFull(f, at[:]); err != nil {
		return g, err
	}
	return g, g.read(int64(binary.BigEndian.Uint64(at[:])), end, &g.gridIndex)
}

// read reads what lies between two places.
func (g *grid) read(from, to int64, into any) error {
	packed := make([]byte, max(to-from, 0))
	if _, err := g.f.ReadAt(packed, from); err != nil {
		return err
	}
	text, err := g.unpack.DecodeAll(packed, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// block reads the rows of a block.
func (g *grid) block(i int) (rows []importer.GridRow, err error) {
	from := int64(0)
	if i > 0 {
		from = g.Blocks[i-1].End
	}
	return rows, g.read(from, g.Blocks[i].End, &rows)
}

func (g *grid) close() {
	if g.unpack != nil {
		g.unpack.Close()
	}
	_ = g.f.Close()
}

// Which rows a window has. Any other is the word of an outcome ([importer.Words]).
const (
	AllRows    = ""
	BadRows    = "problems"
	FailedRows = "failed" // settled, and certainly not created
)

// Window is a part of the rows of a checked upload.
type Window struct {
	Columns []importer.GridColumn
	Lines   []WindowRow
	// Total counts all rows of the file, and Bad those that cannot be sent.
	Total, Bad int
	// Next is the number of the row at which the next window begins; 0 = this is the last one. Cut says that this one ends
	// because many rows that are not asked for lie in between.
	Next int
	Cut  bool
}

// WindowRow is a row with what became of its order; nil = the upload was not imported.
type WindowRow struct {
	importer.GridRow
	Outcome *importer.RowOutcome
}

// Rows returns at most so many rows of a checked upload, from the one with a number on: which of them is one of the
// constants or an outcome. Its cost is that of the rows it looks at, wherever they lie in the file.
func (d *Desk) Rows(ctx context.Context, id, which string, from, most int) (*Window, error) {
	u, err := d.store.Get(id)
	if err != nil {
		return nil, err
	}
	if u.Checked == nil || !u.Checked.Shown {
		return nil, refuse(Unready, "the file is not checked with these settings yet; check it first")
	}
	g, err := d.openGrid(id)
	if err != nil {
		return nil, err
	}
	defer g.close()
	w := &Window{Columns: g.Columns, Total: g.gridIndex.Rows, Bad: g.Bad}
	waiting := uint64(0)
	if u.Import != nil {
		// First: what leaves the waiting room is in the queue, or has a result.
		if waiting, err = imports.WaitingOf(ctx, d.queue, u.Import.Batch); err != nil {
			return nil, err
		}
	}
	looked := 0
	for i := (max(from, 1) - 1) / gridBlock; i < len(g.Blocks); i++ {
		if which == BadRows && g.Blocks[i].Bad == 0 {
			continue
		}
		rows, err := g.block(i)
		if err != nil {
			return nil, err
		}
		if from > rows[0].Number {
			rows = rows[min(from-rows[0].Number, len(rows)):]
		}
		if which == AllRows {
			rows = rows[:min(len(rows), most-len(w.Lines)+1)] // no outcome is looked up for nothing
		}
		var outcomes []importer.RowOutcome
		if u.Import != nil && which != BadRows {
			if outcomes, err = importer.Outcomes(ctx, d.queue, rows, waiting > 0); err != nil {
				return nil, err
			}
		}
		for k := range rows {
			line := WindowRow{GridRow: rows[k]}
			if outcomes != nil {
				line.Outcome = &outcomes[k]
			}
			if !line.is(which) {
				continue
			}
			if len(w.Lines) == most {
				w.Next = line.Number
				return w, nil
			}
			w.Lines = append(w.Lines, line)
		}
		if looked += len(rows); which != AllRows && which != BadRows && looked >= gridLooked && i+1 < len(g.Blocks) {
			w.Next, w.Cut = (i+1)*gridBlock+1, true
			return w, nil
		}
	}
	return w, nil
}

// is reports whether a row is one of those that are asked for.
func (r *WindowRow) is(which string) bool {
	switch which {
	case AllRows:
		return true
	case BadRows:
		return r.Code != ""
	case FailedRows:
		return r.Outcome != nil && r.Outcome.Failed
	}
	return r.Outcome != nil && r.Outcome.Word == which
}
