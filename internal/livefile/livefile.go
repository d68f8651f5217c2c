// Package livefile reads files of settings again when they change: livefile.go one file,
// certificate.go a server's certificate with its key, authorities.go those of its clients.
package livefile

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"orderpost/internal/textfile"
)

// atRest is how old a file must be before Reload takes it: an editor may be writing it
// still.
const atRest = time.Second

// File is a file of settings. One goroutine at a time may use it.
type File struct {
	setting, path string
	text          []byte      // that was taken last
	looked        os.FileInfo // the file as Reload read it last
	mistake       error       // in that file
}

// Open reads the file that a setting names, and hands its content to take. An error is
// take's, or begins with the setting's name.
func Open(setting, path string, take func(text []byte) error) (*File, error) {
	f := &File{setting: setting, path: path}
	_, err := f.read(take)
	return f, err
}

// Reload hands the content to take if it changed. With an error, what was taken last is
// still in force. Reload returns the error again until the file is another one.
func (f *File) Reload(take func(text []byte) error) (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		f.looked = nil
		return false, f.named(err)
	}
	if had := f.looked; had != nil && os.SameFile(had, info) && had.ModTime().Equal(info.ModTime()) && had.Size() == info.Size() {
		return false, f.mistake
	}
	if age := time.Since(info.ModTime()); age >= 0 && age < atRest {
		return false, f.mistake
	}
	f.looked = info
	changed, f.mistake = f.read(take)
	return changed, f.mistake
}

// read reads the file, and has its content taken if it changed.
func (f *File) read(take func([]byte) error) (changed bool, err error) {
	text, err := textfile.Read(f.path)
	if err != nil {
		f.looked = nil
		return false, f.named(err)
	}
	if f.text != nil && bytes.Equal(text, f.text) {
		return false, nil
	}
	if err := take(text); err != nil {
		return false, err
	}
	f.text = text
	return true, nil
}

func (f *File) named(err error) error { return fmt.Errorf("%s: %w", f.setting, err) }

// teller tells once what is wrong, and again only after it was right or something else.
type teller struct {
	report func(error)
	said   string // what report was told last
}

// say tells what is wrong; nil = nothing is.
func (t *teller) say(wrong error) {
	text := ""
	if wrong != nil {
		text = wrong.Error()
	}
	if text != t.said && wrong != nil {
		t.report(wrong)
	}
	t.said = text
}
