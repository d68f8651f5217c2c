package uploads

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"orderpost/internal/platform/durable"
)

// Config holds the limits of a store. Open replaces zero values by the defaults.
type Config struct {
	// Dir is the data folder. The uploads are in its subfolder Folder, "uploads" if it is
	// empty.
	Dir, Folder string
	// MaxFile is the largest file in bytes, as it comes and unpacked.
	MaxFile int64
	// MaxTotal is what all uploads may take on disk, in bytes.
	MaxTotal int64
	// Retention is how long an upload that nobody uses is kept. Grace is how long one
	// is kept whose final results have been fetched, because a download can fail.
	Retention, Grace time.Duration
}

// The defaults of Config.
const (
	DefaultMaxFile   = 1 << 30
	DefaultMaxTotal  = 8 << 30
	DefaultRetention = 7 * 24 * time.Hour
	DefaultGrace     = time.Hour
)

// Store keeps uploads. It is safe for concurrent use. The caller must call Close.
type Store struct {
	cfg  Config
	dir  string
	lock *flock.Flock
	used atomic.Int64 // bytes on disk
	// slack is ratioSlack. A test shortens it.
	slack int64

	unreadable []error
	// step is for a test: it sees what is done to make files last, and can refuse it.
	step func(step, path string) error

	mu  sync.Mutex
	all map[string]*Upload // replaced as a whole, never changed
}

// Open opens the folder, creates it if necessary, and removes what an upload that was
// cut off left behind. Only one process at a time can open it.
func Open(cfg Config) (*Store, error) {
	cfg.MaxFile, cfg.MaxTotal = cmp.Or(cfg.MaxFile, DefaultMaxFile), cmp.Or(cfg.MaxTotal, DefaultMaxTotal)
	cfg.Retention, cfg.Grace = cmp.Or(cfg.Retention, DefaultRetention), cmp.Or(cfg.Grace, DefaultGrace)
	s := &Store{cfg: cfg, dir: filepath.Join(cfg.Dir, cmp.Or(cfg.Folder, "uploads")), slack: ratioSlack, all: make(map[string]*Upload)}
	if err := durable.MakeFolder(s.dir, s.syncFolder); err != nil {
		return nil, fmt.Errorf("the folder for uploads: %w", s.full(err))
	}
	s.lock = flock.New(filepath.Join(s.dir, "lock"), flock.SetPermissions(0o600))
	switch locked, err := s.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("the folder for uploads: %w", err)
	case !locked:
		return nil, fmt.Errorf("another process uses the folder %s; stop it, or give this one a data folder of its own (ORDERPOST_DATA_DIR)", s.dir)
	}
	if err := s.read(); err != nil {
		_ = s.lock.Unlock()
		return nil, err
	}
	return s, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.lock.Unlock() }

// read finds the uploads of an earlier console.
func (s *Store) read() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		folder := filepath.Join(s.dir, e.Name())
		switch {
		case !e.IsDir():
		case validID(strings.TrimSuffix(e.Name(), part)) && !validID(e.Name()): // cut off, or removed in part
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
		case validID(e.Name()):
			u, err := s.readUpload(folder)
			if err != nil {
				s.unreadable = append(s.unreadable, fmt.Errorf("an upload cannot be read: %w; remove the folder %s if nobody needs it", err, folder))
				continue
			}
			s.all[u.ID] = u
			s.used.Add(u.Bytes)
			// A console that was killed may not have synced what this one found.
			if err := s.syncFolder(folder); err != nil {
				return err
			}
		}
	}
	return s.syncFolder(s.dir)
}

func (s *Store) readUpload(folder string) (*Upload, error) {
	_ = os.Remove(filepath.Join(folder, metaFile+part)) // a change that was cut off
	data, err := os.ReadFile(filepath.Join(folder, metaFile))
	if err != nil {
		return nil, err
	}
	u := new(Upload)
	if err := json.Unmarshal(data, u); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, metaFile), err)
	}
	if want := filepath.Base(folder); u.ID != want {
		return nil, fmt.Errorf("%s: it belongs to upload %q", filepath.Join(folder, metaFile), u.ID)
	}
	if u.Import != nil && u.Import.State == Running {
		u.Import.State, u.Import.Error = Interrupted, "its process ended in the middle of the import"
	}
	return u, nil
}

// Unreadable returns what Open found and could not read. It left that alone.
func (s *Store) Unreadable() []error { return s.unreadable }

// folder returns the folder of an upload.
func (s *Store) folder(id string) string { return filepath.Join(s.dir, id) }

// validID says whether a text is an id and so the name of a folder.
func validID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}

// Limits returns the limits that are in force.
func (s *Store) Limits() Config { return s.cfg }

// Used returns how many bytes the uploads take on disk.
func (s *Store) Used() int64 { return s.used.Load() }

// Announced returns an error if a file of so many bytes would be refused. A console
// asks before it reads the file.
func (s *Store) Announced(size int64) error {
	if size > s.cfg.MaxFile {
		return tooLarge(s.cfg.MaxFile)
	}
	return nil
}

// List returns the uploads, the latest first.
func (s *Store) List() []Upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Upload, 0, len(s.all))
	for _, u := range s.all {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Upload) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Get returns an upload. The error is a *Refusal if there is none.
func (s *Store) Get(id string) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.all[id]; u != nil {
		return *u, nil
	}
	return Upload{}, s.gone(id)
}

// OfBatch returns the latest upload that was imported as a batch.
func (s *Store) OfBatch(batch string) (Upload, bool) {
	for _, u := range s.List() {
		if u.Import != nil && u.Import.Batch == batch {
			return u, true
		}
	}
	return Upload{}, false
}

func (s *Store) gone(id string) error {
	return refuse(Gone, "there is no upload %s: its results were fetched, or nobody used it for %s, or somebody removed it; upload the file again", clipID(id), s.cfg.Retention)
}

func clipID(id string) string {
	if !validID(id) {
		return "of that name"
	}
	return id
}

// update changes what is remembered of an upload, or returns an error and changes
// nothing.
func (s *Store) update(id string, change func(*Upload)) (Upload, error) {
	return s.change(id, change, false)
}

// note is update for what has happened. It remembers that even if it cannot be written
// to disk, and returns the error.
func (s *Store) note(id string, change func(*Upload)) error {
	_, err := s.change(id, change, true)
	return err
}

func (s *Store) change(id string, change func(*Upload), happened bool) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.all[id]
	if u == nil {
		return Upload{}, s.gone(id)
	}
	next := *u
	change(&next)
	err := s.write(s.folder(id), &next)
	if err != nil && !happened {
		return *u, err
	}
	s.all[id] = &next
	return next, err
}

// write writes what is remembered of an upload, completely or not at all.
func (s *Store) write(folder string, u *Upload) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, metaFile)
	f, err := os.OpenFile(path+part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return s.full(err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, s.syncFile(f), f.Close()); err == nil {
		err = s.rename(path+part, path)
	}
	if err != nil {
		_ = os.Remove(path + part)
		return s.full(err)
	}
	return s.full(s.syncFolder(folder))
}

// Remove removes an upload. Its import, if there was one, stays.
func (s *Store) Remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(id)
}

func (s *Store) remove(id string) error {
	u := s.all[id]
	if u == nil {
		return s.gone(id)
	}
	gone := s.folder(id) + part // a start removes what a crash leaves of it
	if err := s.rename(s.folder(id), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.all, id)
	s.used.Add(-u.Bytes)
	return errors.Join(s.syncFolder(s.dir), os.RemoveAll(gone)) // it does not come back after a power cut
}

// Expired returns the uploads that nobody needs any more: those whose final results
// were fetched, and those that nobody has used for long.
func (s *Store) Expired(now time.Time) (fetched, unused []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.all {
		switch {
		case !u.FetchedAt.IsZero() && now.Sub(u.FetchedAt) > s.cfg.Grace:
			fetched = append(fetched, id)
		case now.Sub(u.UsedAt) > s.cfg.Retention:
			unused = append(unused, id)
		}
	}
	return fetched, unused
}
