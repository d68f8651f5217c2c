package uploads

import (
	"errors"
	"fmt"
	"strings"

	"orderpost/internal/files/importer"
)

// Kind says what a person can do about a refusal.
type Kind int

// The kinds of refusals.
const (
	// Unusable: the file cannot be imported, whoever uploads it.
	Unusable Kind = iota + 1
	// TooLarge: the file is above a limit.
	TooLarge
	// BrokenOff: the file did not arrive completely.
	BrokenOff
	// NoRoom: the disk or the folder is full.
	NoRoom
	// Busy: a job of the upload is running.
	Busy
	// Unready: a step before this one is missing.
	Unready
	// Gone: there is no such upload, or it was removed.
	Gone
	// Changed: the upload is not as the person saw it.
	Changed
)

// Refusal is an error that says what was seen and what to do.
type Refusal struct {
	Kind Kind
	// Text is for a person who knows the file by its name. Seen and Do are its parts for a
	// program whose file has none: what was seen, and what to do, which may be empty.
	Text, Seen, Do string
	Err            error // the cause, if there is one
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// KindOf returns the kind of a refusal, or 0 for another error.
func KindOf(err error) Kind {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Kind
	}
	return 0
}

// refuse makes a refusal. What stands behind the first semicolon of the format is what to do.
// It has no verbs.
func refuse(kind Kind, format string, args ...any) *Refusal {
	err := fmt.Errorf(format, args...)
	_, do, _ := strings.Cut(format, "; ")
	return &Refusal{Kind: kind, Text: err.Error(), Seen: strings.TrimSuffix(err.Error(), "; "+do), Do: do, Err: errors.Unwrap(err)}
}

// Unnamed returns what the importer says of a file without the file's name, which may stand in
// front twice.
func Unnamed(file, text string) string {
	for strings.HasPrefix(text, file+":") {
		text = strings.TrimSpace(text[len(file)+1:])
	}
	return text
}

// unusable refuses a file for an error of the importer, which may begin with the file's name.
func unusable(file string, err error) *Refusal {
	return &Refusal{Kind: Unusable, Text: err.Error(), Seen: Unnamed(file, importer.Plain(err)), Err: err}
}

// divided takes what stands behind the first semicolon for what to do. The importer's errors are
// like that where it cannot read a file at all, and quote nothing of it.
func (r *Refusal) divided() *Refusal {
	r.Seen, r.Do, _ = strings.Cut(r.Seen, "; ")
	return r
}

// of puts the name of the file in front, for a person.
func (r *Refusal) of(file string) *Refusal {
	r.Text = file + ": " + r.Text
	return r
}

// because notes a cause that says nothing to a person.
func (r *Refusal) because(err error) *Refusal {
	r.Err = err
	return r
}

// inBytes writes a size for people.
func inBytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
