package uploads

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// A page says that a file is kept only when a power cut can no longer take it: first
// the content is synced, then what is remembered of it, then the folder with both names,
// and then the folder that names that one. fsync of a file keeps the file's data. POSIX
// promises its name only after an fsync of the folder.

// makeFolder creates a folder and syncs the folders that name it and its new parents.
func (s *Store) makeFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	holders := []string{filepath.Dir(dir)} // an earlier start may have been killed before it synced that one
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
		if err := s.syncFolder(holder); err != nil {
			return err
		}
	}
	return nil
}

// syncFile makes the data of a file last.
func (s *Store) syncFile(f *os.File) error {
	return errors.Join(s.does("sync", f.Name()), f.Sync())
}

// syncFolder makes the names in a folder last. Windows has no such call.
func (s *Store) syncFolder(dir string) error {
	if err := s.does("sync", dir); err != nil || runtime.GOOS == "windows" {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *Store) rename(from, to string) error {
	if err := s.does("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// does tells a test what is about to be done. An error prevents it.
func (s *Store) does(step, path string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step, path)
}
