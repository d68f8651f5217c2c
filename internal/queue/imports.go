package queue

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/settle"
)

// importPrefix begins the keys of imports in the fleet's bucket.
const importPrefix = "import."

// Import is what the bucket remembers of one import: what was imported, and how
// far it came.
type Import struct {
	Batch string `json:"batch"`
	// File is the path of the file, or the name given for standard input.
	File string `json:"file"`
	// Content and Fingerprint are SHA-256 in hex: of the file's bytes, and of
	// these with the mapping. Another fingerprint is another import.
	Content     string          `json:"content"`
	Fingerprint string          `json:"fingerprint"`
	Mapping     json.RawMessage `json:"mapping,omitempty"`
	// Format, Encoding and Delimiter are how the file was read.
	Format    string    `json:"format,omitempty"`
	Encoding  string    `json:"encoding,omitempty"`
	Delimiter string    `json:"delimiter,omitempty"`
	Rows      int       `json:"rows"`
	StartedAt time.Time `json:"started_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Done is the number of rows, from the first, whose fate JetStream has
	// confirmed.
	Done int `json:"done"`
	// Counts are what became of these rows.
	Counts map[string]int `json:"counts,omitempty"`
	// FirstResult: records up to this sequence are older than the import.
	FirstResult uint64 `json:"first_result"`
	// CancelledAt is set when a person withdrew the batch.
	CancelledAt time.Time `json:"cancelled_at,omitzero"`

	revision uint64
}

// Complete says whether every row has been dealt with.
func (i *Import) Complete() bool { return i.Done >= i.Rows }

// importKey keeps a batch's name within the characters of a key.
func importKey(batch string) string { return importPrefix + hex.EncodeToString([]byte(batch)) }

// Import reads what is remembered of a batch; nil where there is nothing.
func (q *Queue) Import(ctx context.Context, batch string) (*Import, error) {
	entry, err := q.bucket.Get(ctx, importKey(batch))
	if errors.Is(err, ErrNoKey) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readImport(q.cfg.Bucket, entry.Key, entry.Value, entry.Revision)
}

func readImport(bucket, key string, value []byte, revision uint64) (*Import, error) {
	i := Import{revision: revision}
	if err := json.Unmarshal(value, &i); err != nil {
		return nil, fmt.Errorf("bucket %s, key %s: %w", bucket, key, err)
	}
	return &i, nil
}

// ErrImportChanged is returned by SaveImport where somebody else wrote since
// the import was read: another run of it, or a cancellation.
var ErrImportChanged = errors.New("the import's progress was written by somebody else meanwhile")

// SaveImport writes it if it is as it was read; one that was not read is
// created.
func (q *Queue) SaveImport(ctx context.Context, i *Import) error {
	i.UpdatedAt = time.Now().UTC()
	revision, err := q.bucket.Swap(ctx, importKey(i.Batch), i, i.revision)
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
func (q *Queue) Imports(ctx context.Context) ([]*Import, error) {
	var out []*Import
	bucket, prefix := "KV_"+q.cfg.Bucket, "$KV."+q.cfg.Bucket+"."
	err := q.walk(ctx, bucket, prefix+importPrefix+">", func(page []*settle.Message) error {
		for _, raw := range page {
			if raw.Header.Get("KV-Operation") != "" {
				continue // removed
			}
			i, err := readImport(q.cfg.Bucket, strings.TrimPrefix(raw.Subject, prefix), raw.Data, raw.Seq)
			if err != nil {
				return err
			}
			out = append(out, i)
		}
		return nil
	})
	return out, err
}

// After gives the import as one that was read when now was: the next save
// takes the place of now.
func (i *Import) After(now *Import) *Import {
	next := *i
	next.revision = now.revision
	return &next
}

// Renewed gives the import as one that is not stored yet.
func (i *Import) Renewed() *Import { return i.After(&Import{}) }
