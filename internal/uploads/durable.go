package uploads

import (
	"errors"
	"os"

	"orderpost/internal/durable"
)

// A page says that a file is kept only when a power cut can no longer take it: first
// the content is synced, then what is remembered of it, then the folder with both names,
// and then the folder that names that one (package durable says why).

// syncFile makes the data of a file last.
func (s *Store) syncFile(f *os.File) error {
	return errors.Join(s.does("sync", f.Name()), f.Sync())
}

// syncFolder makes the names in a folder last.
func (s *Store) syncFolder(dir string) error {
	if err := s.does("sync", dir); err != nil {
		return err
	}
	return durable.SyncFolder(dir)
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
