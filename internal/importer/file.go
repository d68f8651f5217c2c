package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"time"
	"unicode/utf8"

	"orderpost/internal/books"
)

// Options say how a file is read and imported.
type Options struct {
	// File names the source in messages and in Order-Source.
	File string
	// Path is where the file lies, for reading it again later; empty: nowhere.
	Path      string
	Format    Format
	Encoding  string
	Delimiter rune // 0: detected
	Mapping   Mapping
	// Batch names the import; empty: the beginning of its fingerprint.
	Batch string
	// Deadline of every order; zero: none.
	Deadline time.Time
	// SkipInvalid imports the good rows of a file that has bad ones.
	SkipInvalid bool
	// MaxErrors is how many bad rows are told; 0 means [DefaultMaxErrors].
	MaxErrors int
	// RetryFailed enqueues orders again that certainly failed before.
	RetryFailed bool
	// Rate bounds the orders enqueued per second; 0: as fast as it goes.
	Rate float64
	// TempDir is where temporary files go; empty: the system's folder for them.
	TempDir string
	// FullWait is how long an import waits for a full queue while no order is
	// settled; 0 means [DefaultFullWait].
	FullWait time.Duration
	// Progress is told after each chunk of rows how many are done. May be nil.
	Progress func(rows int)
	// Trace gives the W3C trace header of each intent that is published. May
	// be nil.
	Trace func(orderNo, intentID string) string
}

// DefaultMaxErrors is how many bad rows are told.
const DefaultMaxErrors = 20

// File is a file to import. It is read several times.
type File struct {
	o       Options
	content io.ReadSeeker
	// Content is the SHA-256 of the file's bytes, Fingerprint that of bytes and
	// mapping, in hex: what decides which orders the file stands for.
	Content, Fingerprint string
	// Batch is the id of the import.
	Batch string

	repeated *duplicates
	// rounded are the columns with more round numbers than chance explains.
	rounded []int
	// head is the file's table as Check read it: header and dialect.
	head  *table
	proof proof
}

// Open hashes the content.
func Open(content io.ReadSeeker, o Options) (*File, error) {
	if o.MaxErrors <= 0 {
		o.MaxErrors = DefaultMaxErrors
	}
	if o.FullWait <= 0 {
		o.FullWait = DefaultFullWait
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	hash, quick := sha256.New(), maphash.Hash{}
	if _, err := io.Copy(io.MultiWriter(hash, &quick), content); err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	f := &File{o: o, content: content, Content: hex.EncodeToString(hash.Sum(nil)), repeated: newDuplicates(o.TempDir),
		proof: proof{seed: quick.Seed(), content: quick.Sum64()}}
	_, _ = hash.Write(o.reading())
	f.Fingerprint = hex.EncodeToString(hash.Sum(nil))
	if f.Batch = o.Batch; f.Batch == "" {
		f.Batch = f.Fingerprint[:16]
	}
	return f, nil
}

// Name is the file's name in messages.
func (f *File) Name() string { return f.o.File }

// reading is what was said about how to read the file, for its fingerprint: the
// same bytes read in another way are other orders.
func (o *Options) reading() []byte {
	said := struct {
		Format    Format
		Encoding  string
		Delimiter rune
	}{o.Format, o.Encoding, o.Delimiter}
	if said.Format == FormatAuto {
		said.Format = ""
	}
	if said.Encoding == EncodingAuto {
		said.Encoding = ""
	}
	mapping := o.Mapping.canonical()
	if said.Format == "" && said.Encoding == "" && said.Delimiter == 0 {
		return mapping
	}
	data, _ := json.Marshal(said) // nothing in it can fail
	return append(data, mapping...)
}

// Reopen opens the file of an import that was made before, to be read as it was
// then. It is an error where the content is another. tempDir is
// Options.TempDir.
func Reopen(content io.ReadSeeker, imp *books.Import, tempDir string) (*File, error) {
	o := Options{TempDir: tempDir, File: imp.File, Format: Format(imp.Format), Encoding: imp.Encoding, Batch: imp.Batch, SkipInvalid: true}
	if imp.Delimiter != "" {
		o.Delimiter, _ = utf8.DecodeRuneInString(imp.Delimiter)
	}
	if len(imp.Mapping) > 0 {
		if err := json.Unmarshal(imp.Mapping, &o.Mapping); err != nil {
			return nil, fmt.Errorf("batch %s: its mapping: %w", imp.Batch, err)
		}
	}
	f, err := Open(content, o)
	if err == nil && f.Content != imp.Content {
		err = fmt.Errorf("%s is not the file that was imported as batch %s", imp.File, imp.Batch)
	}
	return f, err
}
