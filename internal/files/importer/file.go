package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/xlsx"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/settle"
)

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
	_, _ = hash.Write(o.identity())
	f.Fingerprint = hex.EncodeToString(hash.Sum(nil))
	if f.Batch = o.Batch; f.Batch == "" {
		f.Batch = o.BatchPrefix + f.Fingerprint[:16]
	}
	return f, nil
}

// Name returns the file's name in messages.
func (f *File) Name() string { return f.o.File }

// About is what the journal has of the import before it begins.
func (f *File) About(checked *Summary) journal.About {
	about := journal.About{Kind: journal.Import, Batch: f.Batch, Expected: map[string]int{"rows": checked.Rows, "invalid": checked.Invalid},
		Details: map[string]string{"file": f.Name(), "content": f.Content}}
	if checked.LeftOut > 0 {
		about.Expected["left-out"] = checked.LeftOut
	}
	return about
}

// Reopen opens the file of an earlier import with the options of that import. It
// returns an error if the content has changed. temp is Options.Temp.
func Reopen(content io.ReadSeeker, imp *imports.Import, temp string) (*File, error) {
	o := Options{Temp: temp, File: imp.File, Sending: Sending{SkipInvalid: true}}
	if err := o.Reading.recall(imp); err != nil {
		return nil, fmt.Errorf("batch %s: its mapping: %w", imp.Batch, err)
	}
	f, err := Open(content, o)
	if err == nil && f.Content != imp.Content {
		err = fmt.Errorf("%s is not the file that was imported as batch %s", imp.File, imp.Batch)
	}
	return f, err
}
