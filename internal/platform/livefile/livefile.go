// Package livefile reads files of settings again when they change: livefile.go one file,
// live.go what it says, certificate.go a server's certificate with its key, and the authorities
// of its clients.
package livefile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/platform/textfile"
)

// atRest is how old a file must be before Reload takes it: an editor may be writing it
// still.
const atRest = time.Second

// File is a file of settings. One goroutine at a time may use it.
type File struct {
	setting, path string
	guard         bool        // refuse a file that anybody can change
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
	if err := f.guarded(info); err != nil {
		return false, err
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

// guarded returns an error if anybody on the machine can change the file, or put another one in
// its place: they could let themselves in.
func (f *File) guarded(info os.FileInfo) error {
	if !f.guard || runtime.GOOS == "windows" { // the mode says nothing there
		return nil
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 {
		return f.named(fmt.Errorf("anybody on this machine may write %s (mode %04o) and let themselves in; run chmod o-w %s", f.path, mode.Perm(), f.path))
	}
	folder := filepath.Dir(f.path)
	if in, err := os.Stat(folder); err == nil && in.Mode().Perm()&0o002 != 0 && in.Mode()&os.ModeSticky == 0 {
		return f.named(fmt.Errorf("anybody on this machine may replace %s, because its folder is open to all (mode %04o); run chmod o-w %s", f.path, in.Mode().Perm(), folder))
	}
	return nil
}

// teller logs once what is wrong with a file, and that it is right again.
type teller struct {
	log  zerolog.Logger
	said string // what was logged last; "" = nothing is wrong
}

// say logs what is wrong; nil = nothing is.
func (t *teller) say(wrong error) {
	text := ""
	if wrong != nil {
		text = wrong.Error()
	}
	switch {
	case text == t.said:
	case wrong != nil:
		t.log.Error().Err(wrong).Msg("a file of settings is wrong")
	default:
		t.log.Info().Msg("a file of settings is right again")
	}
	t.said = text
}
