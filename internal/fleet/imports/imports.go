package imports

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// importPrefix begins the keys of imports in the fleet's bucket.
const importPrefix = "import."

// Import is what the fleet's bucket remembers of one import: what was imported,
// and how far it came.
type Import struct {
	Batch string `json:"batch"`
	// File is the path of the file, or the name given for standard input.
	File string `json:"file"`
	// By is the person who began the import, where that is known.
	By string `json:"by,omitempty"`
	// Content and Fingerprint are SHA-256 in hex: of the file's bytes, and of
	// these with the mapping. Another fingerprint is another import.
	Content     string          `json:"content"`
	Fingerprint string          `json:"fingerprint"`
	Mapping     json.RawMessage `json:"mapping,omitempty"`
	// Columns is a hash of the names of the file's columns.
	Columns string `json:"columns,omitempty"`
	// Format, Encoding and Delimiter are how the file was read.
	Format    string `json:"format,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Delimiter string `json:"delimiter,omitempty"`
	// Sheet is the sheet of a workbook.
	Sheet string `json:"sheet,omitempty"`
	// HeaderRow is the row that names the columns, and SkipRows those that were left out.
	HeaderRow int    `json:"header_row,omitempty"`
	SkipRows  string `json:"skip_rows,omitempty"`
	// Edits are the cells that a person corrected, as package importer writes them.
	Edits     json.RawMessage `json:"edits,omitempty"`
	Rows      int             `json:"rows"`
	StartedAt time.Time       `json:"started_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	// Done is the number of rows, from the first, that are dealt with: JetStream has
	// confirmed what became of each.
	Done int `json:"done"`
	// Counts are what became of these rows.
	Counts map[string]int `json:"counts,omitempty"`
	// Storing says that a run of it stores orders, or ended without having stored all.
	// Only an import that may need an approval says so.
	Storing bool `json:"storing,omitempty"`
	// FirstResult: records up to this sequence are older than the import.
	FirstResult uint64 `json:"first_result"`
	// NotBefore is the time before which no order of it is sent; zero = none.
	NotBefore time.Time `json:"not_before,omitzero"`
	// CancelledAt is set when a person withdrew the batch.
	CancelledAt time.Time `json:"cancelled_at,omitzero"`

	revision uint64
}

// Complete says whether every row has been dealt with.
func (i *Import) Complete() bool { return i.Done >= i.Rows }

// Over says whether no run of it stores orders any more: every row has been dealt with, or a
// person cancelled it.
func (i *Import) Over() bool { return !i.CancelledAt.IsZero() || i.Complete() && !i.Storing }

// importKey keeps a batch's name within the characters of a key.
func importKey(batch string) string { return importPrefix + hex.EncodeToString([]byte(batch)) }

// ReadImport reads what is remembered of a batch; nil where there is nothing, as of one without a name.
func ReadImport(ctx context.Context, q *queue.Queue, batch string) (*Import, error) {
	if batch == "" {
		return nil, nil
	}
	entry, err := q.Bucket().Get(ctx, importKey(batch))
	if errors.Is(err, queue.ErrNoKey) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeImport(q, entry)
}

func decodeImport(q *queue.Queue, entry queue.Entry) (*Import, error) {
	i := Import{revision: entry.Revision}
	if err := json.Unmarshal(entry.Value, &i); err != nil {
		return nil, fmt.Errorf("bucket %s, key %s: %w", q.Bucket().Name(), entry.Key, err)
	}
	return &i, nil
}

// ErrImportChanged is returned by SaveImport where somebody else has written since
// the import was read: another run of it, or a cancellation.
var ErrImportChanged = errors.New("the import's progress was written by somebody else meanwhile")

// SaveImport writes i if nobody else has written since i was read. An import that
// was not read is created. Error: ErrImportChanged.
func SaveImport(ctx context.Context, q *queue.Queue, i *Import) error {
	i.UpdatedAt = time.Now().UTC()
	revision, err := q.Bucket().Swap(ctx, importKey(i.Batch), i, i.revision)
	switch {
	case err == nil:
		i.revision = revision
		return nil
	case errors.Is(err, settle.ErrStale):
		return ErrImportChanged
	default:
		return err
	}
}

// Imports lists what is remembered, in no order.
func Imports(ctx context.Context, q *queue.Queue) ([]*Import, error) {
	return Since(ctx, q, 0)
}

// Since lists the imports that were written after a revision of the bucket, in the order of these
// writes. [Import.Revision] of the last one is the revision to go on from.
func Since(ctx context.Context, q *queue.Queue, revision uint64) ([]*Import, error) {
	var out []*Import
	err := q.Bucket().WalkFrom(ctx, importPrefix, revision+1, func(e queue.Entry) error {
		i, err := decodeImport(q, e)
		if err == nil {
			out = append(out, i)
		}
		return err
	})
	return out, err
}

// Revision is the revision of the bucket at which the import was written; 0 = it was not read.
func (i *Import) Revision() uint64 { return i.revision }

// Address is the path of an import's page on the console.
func Address(batch string) string { return "/import?batch=" + url.QueryEscape(batch) }

// After returns the import as if it had been read when now was read: the next
// save replaces now.
func (i *Import) After(now *Import) *Import {
	next := *i
	next.revision = now.revision
	return &next
}

// Renewed returns the import as one that is not stored yet.
func (i *Import) Renewed() *Import { return i.After(&Import{}) }
