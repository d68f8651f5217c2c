package folder

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

// The folders in a watched folder.
const (
	// Done has the files whose orders are in the queue, Refused those that cannot be
	// imported.
	Done, Refused = "done", "refused"
	// state has the lock and the jobs.
	state = ".orderpost"
)

// part marks the folder of a job that is not complete, or goes.
const part = ".part"

// ErrInUse says that another process watches the folder.
var ErrInUse = errors.New("another process watches this folder")

// Folder is a folder whose lock this process holds. One goroutine may look and take, and
// another one may work on the jobs. The caller must call Close.
type Folder struct {
	// Path is the folder as [Open] was told.
	Path string
	disk disk
	lock *flock.Flock
	seen map[string]*sighting

	unreadable []error

	mu   sync.Mutex
	jobs []*Job // oldest first
}

// Open locks a folder, makes what is missing in it, and reads the jobs of an earlier
// process. step is told of every change on the disk before and after it; it may be nil.
// Error: ErrInUse; os.ErrNotExist and os.ErrPermission by what they say.
func Open(dir string, step func(string)) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: dir, disk: disk{root, step}, seen: make(map[string]*sighting)}
	if err := f.begin(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Folder) begin() error {
	for name, mode := range map[string]fs.FileMode{state: 0o700, Done: 0o777, Refused: 0o777} {
		if err := f.ensure(name, mode); err != nil {
			return err
		}
	}
	f.lock = flock.New(filepath.Join(f.Path, state, "lock"), flock.SetPermissions(0o600))
	switch locked, err := f.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("the folder %s cannot be locked: %w; watch a folder on a file system with locks, and have the files moved into it", f.Path, err)
	case !locked:
		return ErrInUse
	}
	return f.recover()
}

// ensure makes a folder in the folder. A link could lead the files elsewhere.
func (f *Folder) ensure(name string, mode fs.FileMode) error {
	info, err := f.disk.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = f.disk.mkdir(name, mode); err != nil {
			return fmt.Errorf("the folder needs %s/ for its files: %w", name, err)
		}
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder; move it away, or make it one (for another file system, mount it there: a link is not followed)", filepath.Join(f.Path, name))
	}
	return nil
}

// recover finds what an earlier process left.
func (f *Folder) recover() error {
	for _, dir := range []string{Done, Refused} {
		entries, err := f.list(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), temporary) {
				if err := f.disk.remove(path.Join(dir, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	entries, err := f.list(state)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(state, e.Name())
		switch {
		case !e.IsDir():
		case strings.HasSuffix(name, part): // never complete, or over
			err = f.disk.removeAll(name)
		default:
			err = f.load(name)
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(f.jobs, func(a, b *Job) int { return a.TakenAt.Compare(b.TakenAt) })
	return nil
}

// load reads the record of a job.
func (f *Folder) load(dir string) error {
	j := &Job{f: f, dir: dir}
	data, err := f.ReadFile(path.Join(dir, recordFile))
	if err == nil {
		err = json.Unmarshal(data, &j.Record)
	}
	if err != nil {
		f.unreadable = append(f.unreadable, fmt.Errorf("a job in %s cannot be read and is left alone: %w; its file is beside it, and still in the folder unless it is in %s/ or %s/",
			filepath.Join(f.Path, dir), err, Done, Refused))
		return nil
	}
	f.jobs = append(f.jobs, j)
	return j.unmark() // a process that was killed may not have done it
}

// Here returns an error if the folder is not at its path any more, because it was replaced, or
// another file system was mounted over it.
func (f *Folder) Here() error {
	ours, err := f.disk.root.Stat(".")
	if err != nil {
		return err
	}
	there, err := os.Stat(f.Path)
	if err == nil && !os.SameFile(ours, there) {
		err = fmt.Errorf("another folder is at %s now", f.Path)
	}
	return err
}

// Unreadable returns what Open found and could not read.
func (f *Folder) Unreadable() []error { return f.unreadable }

// Close releases the folder.
func (f *Folder) Close() {
	if f.lock != nil {
		_ = f.lock.Close()
	}
	_ = f.disk.root.Close()
}

// Open returns the jobs to be worked on, oldest first: those whose file is not in its place
// yet, and refused ones.
func (f *Folder) Open() []*Job {
	return f.which(func(j *Job) bool { return !j.Placed || j.Stored == "" || j.Why != "" })
}

// Placed returns the jobs that wait for their results, oldest first.
func (f *Folder) Placed() []*Job {
	return f.which(func(j *Job) bool { return j.Placed && j.Stored != "" && j.Why == "" })
}

func (f *Folder) which(is func(*Job) bool) (out []*Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if is(j) {
			out = append(out, j)
		}
	}
	return out
}

// Step takes a step outside of the folder, such as an import, and tells it like the others.
func (f *Folder) Step(step string, do func() error) error { return f.disk.do(step, do) }

// list returns what is in a folder, by name.
func (f *Folder) list(dir string) ([]fs.DirEntry, error) {
	d, err := f.disk.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// maxText is the longest file that ReadFile reads.
const maxText = 1 << 20

// ReadFile reads a small file of the folder, such as its flags. It follows no link.
func (f *Folder) ReadFile(name string) ([]byte, error) {
	file, _, err := f.openRegular(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxText)
	}
	return data, err
}

var errIrregular = errors.New("it is no regular file")

// openRegular opens a regular file for reading, and never waits for the other end of a pipe.
func (f *Folder) openRegular(name string) (*os.File, fs.FileInfo, error) {
	seen, err := f.disk.root.Lstat(name)
	if err == nil && !seen.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, errIrregular)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := f.disk.root.OpenFile(name, os.O_RDONLY|nonblocking, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !os.SameFile(seen, info) {
		err = fmt.Errorf("%s: %w any more", name, errIrregular)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
