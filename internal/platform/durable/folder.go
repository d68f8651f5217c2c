// Package durable makes files and folders last through a power cut, and copies files. fsync of a file keeps the
// file's data; POSIX promises its name only after an fsync of the folder that holds it.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// MakeFolder creates a folder (mode 0700) with its parents, and calls sync for each
// folder that holds a new one, from the bottom up. The folder that holds dir itself is
// always synced: an earlier call may have been killed before it did that.
func MakeFolder(dir string, sync func(dir string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	holders := []string{filepath.Dir(dir)}
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		holders = append(holders, filepath.Dir(at))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, holder := range holders {
		if err := sync(holder); err != nil {
			return err
		}
	}
	return nil
}

// Write writes a file (0600) completely or not at all: a reader never sees half of it, nor does one after a power
// cut. place gives it its name: os.Rename in the place of another file, os.Link where there must be none.
func Write(path string, place func(from, to string) error, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // CreateTemp sets mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // does nothing after a rename
	if err = write(tmp); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = place(tmp.Name(), path)
	}
	if err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder last. Windows has no such call.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncAll syncs all files and folders in a folder, if it exists. It takes little time for
// what is on the disk already.
func SyncAll(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return SyncFolder(path)
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
