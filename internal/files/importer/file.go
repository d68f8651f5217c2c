package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"
	"unicode/utf8"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order/schema"
	"orderpost/internal/settle"
)

// Options say how to read and import a file.
type Options struct {
	// File names the source in messages and in Order-Source.
	File string
	// Path is the file's path, for reading it again later. It is empty for standard
	// input.
	Path      string
	Format    Format
	Encoding  string
	Delimiter rune // 0 = detect
	// Sheet is the sheet of a workbook; empty = the only one with content.
	Sheet string
	// Temp is the folder for what a workbook needs on disk while it is read; empty = the
	// system's.
	Temp    string
	Mapping Mapping
	// Batch names the import. If empty, the name is BatchPrefix and the beginning of the
	// fingerprint.
	Batch, BatchPrefix string
	// Deadline of every order; zero = none.
	Deadline time.Time
	// Lane is the lane of the waiting room in which the orders wait for their turn;
	// empty = they go straight to the queue. The room is left out where no worker
	// feeds the queue from it.
	Lane string
	// NotBefore is the time before which no order is sent, unless the column
	// _not_before has the row's own; zero = none.
	NotBefore time.Time
	// Past is the moment at which a row's own time must not be long over; zero = it may
	// be. It is one moment for all passes over the file, so that they agree.
	Past time.Time
	// SkipInvalid imports the good rows of a file that has bad ones.
	SkipInvalid bool
	// MaxErrors is how many bad rows to list; 0 means [DefaultMaxErrors].
	MaxErrors int
	// RetryFailed enqueues orders again that certainly failed before.
	RetryFailed bool
	// Rate limits the orders enqueued per second; 0 = no limit.
	Rate float64
	// FullWait is how long an import waits at a full queue while no order is
	// settled; 0 means [DefaultFullWait].
	FullWait time.Duration
	// Progress is called after each chunk with the number of rows done. It may be
	// nil.
	Progress func(rows int)
	// Begun is called once the batch is known to be this file's, before an order is stored.
	// Its error ends the import. It may be nil.
	Begun func(context.Context) error
	// By names the person who imports, for the batch's record. It may be empty.
	By string
	// Schema is what every order must fulfil; nil = none. Open pins it: all passes over
	// the file agree.
	Schema *schema.Schema
	// Trace returns the W3C trace header of a new intent, which stream takes. It may be nil.
	Trace func(orderNo, intentID, stream string) string
}

// DefaultMaxErrors is the default of Options.MaxErrors.
const DefaultMaxErrors = 20

// File is a file to import. An import reads it several times, so nobody may change its
// content.
type File struct {
	o       Options
	content io.ReadSeeker
	// Content is the SHA-256 of the file's bytes in hex. Fingerprint also covers the
	// mapping: it identifies the orders that the file stands for.
	Content, Fingerprint string
	// Batch is the id of the import.
	Batch string

	repeated *duplicates
	// timed says that an order has a time that had not come when Check read it.
	timed bool
	// rounded lists the columns with more round numbers than chance explains.
	rounded []int
	// notations says, by column, how numbers are written; nil if each row tells by itself.
	notations []notation
	// broken holds the numbers of the rows that break the schema, once Check has read
	// all rows; before, every pass checks every row.
	broken *set
	// head is the table that Check read: header and dialect.
	head *table
	// resultsOf are the imports whose results the rows have, if the file is one of results.
	resultsOf map[string]bool
	// book is the workbook that the file is, once it was read.
	book *xlsx.Book
}

// Close frees what the file holds beside its content, which the caller closes.
func (f *File) Close() error {
	if f.book == nil {
		return nil
	}
	return f.book.Close()
}

// batchName matches the valid names of imports.
var batchName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// CheckBatch returns an error if a text cannot name an import. "-" stands for what belongs
// to no import, which needs no approval.
func CheckBatch(name string) error {
	switch {
	case !batchName.MatchString(name):
		return fmt.Errorf("%q is not a name of 1 to 100 letters, digits, dots, _ and -", name)
	case name == settle.NoImport:
		return fmt.Errorf("%q stands for orders of no import; give another name", name)
	}
	return nil
}

// Open hashes the content and returns the file. Whoever opens it keeps a copy of content
// that others may change.
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
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	o.Schema = o.Schema.Pinned()
	f := &File{o: o, content: content, Content: hex.EncodeToString(hash.Sum(nil)), repeated: newDuplicates()}
	_, _ = hash.Write(o.reading())
	f.Fingerprint = hex.EncodeToString(hash.Sum(nil))
	if f.Batch = o.Batch; f.Batch == "" {
		f.Batch = o.BatchPrefix + f.Fingerprint[:16]
	}
	return f, nil
}

// Name returns the file's name in messages.
func (f *File) Name() string { return f.o.File }

// reading returns the options that say how to read the file. They are part of the
// fingerprint: the same bytes read in another way are other orders.
func (o *Options) reading() []byte {
	said := struct {
		Format    Format
		Encoding  string
		Delimiter rune
		Sheet     string `json:",omitempty"`
	}{o.Format, o.Encoding, o.Delimiter, o.Sheet}
	if said.Format == FormatAuto {
		said.Format = ""
	}
	if said.Encoding == EncodingAuto {
		said.Encoding = ""
	}
	mapping := o.Mapping.canonical()
	if said.Format == "" && said.Encoding == "" && said.Delimiter == 0 && said.Sheet == "" {
		return mapping
	}
	data, _ := json.Marshal(said) // nothing in it can fail
	return append(data, mapping...)
}

// Reopen opens the file of an earlier import with the options of that import. It
// returns an error if the content has changed. temp is Options.Temp.
func Reopen(content io.ReadSeeker, imp *imports.Import, temp string) (*File, error) {
	o := Options{Temp: temp, File: imp.File, Format: Format(imp.Format), Encoding: imp.Encoding, Sheet: imp.Sheet, Batch: imp.Batch, SkipInvalid: true}
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
