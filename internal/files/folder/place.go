package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"orderpost/internal/platform/durable"
)

// Endings of what stands beside a file.
const (
	ResultsEnding = "results."
	RejectsEnding = "rejects."
	WhyEnding     = "why.txt"
)

// endings are those of all files that may come to stand beside one.
var endings = []string{WhyEnding, ResultsEnding + "csv", ResultsEnding + "xlsx", RejectsEnding + "csv", RejectsEnding + "xlsx", RejectsEnding + "ndjson"}

// Place moves the file of a job that was stored or refused to done/ or refused/, after what
// stands beside it. It may be called again after an error or a kill, at any step. A file of
// the same name that is there stays: the new one gets a number. If the file is not the one
// that was taken any more, it stays, and the copy moves in its place.
func (j *Job) Place() error {
	dir := Done
	if j.Why != "" {
		dir = Refused
		if err := j.Beside(WhyEnding, func(w io.Writer) error { _, err := fmt.Fprintln(w, j.Why); return err }); err != nil {
			return err
		}
	}
	if err := j.aim(dir); err != nil {
		return err
	}
	if err := j.placeAs(j.Target); err != nil {
		return err
	}
	return j.change(func(r *Record) { r.Placed = true })
}

// Aim chooses where the file will be in done/, before it is stored.
func (j *Job) Aim() error { return j.aim(Done) }

func (j *Job) aim(dir string) error {
	if j.Target != "" && path.Dir(j.Target) == dir {
		if info, err := j.f.disk.root.Lstat(j.Target); err != nil || j.ours(j.Target, info) {
			return nil //nolint:nilerr // it is free
		}
	}
	target, err := j.f.free(dir, j.Name)
	if err != nil {
		return err
	}
	return j.change(func(r *Record) { r.Target = path.Join(dir, target) })
}

func (j *Job) placeAs(target string) error {
	all, err := j.besides()
	if err != nil {
		return err
	}
	for _, ending := range all {
		if err := j.copyTo(beside+ending, target+"."+ending, time.Time{}); err != nil {
			return err
		}
	}
	if j.From != "" {
		return j.placeAgain(target)
	}
	if err := j.claim(); err != nil {
		return err
	}
	if _, err := j.f.disk.root.Lstat(target); err == nil {
		return nil // an earlier process placed it
	}
	original := path.Join(j.dir, originalFile)
	if _, err := j.f.disk.root.Lstat(original); err == nil {
		if err := j.f.disk.rename(original, target); !errors.Is(err, syscall.EXDEV) {
			return err
		} else if j.Mode.Type() != 0 || j.Why != "" && !j.has(contentFile) {
			return fmt.Errorf("%s is on another file system, to which only files can be copied that can be read: %w", path.Dir(target), err)
		}
	}
	if !j.has(contentFile) { // it could only be refused, and is gone
		return nil
	}
	return j.copyTo(contentFile, target, j.ModTime)
}

// placeAgain moves a file that is in done/ already. One that somebody changed or moved there
// stays as they left it, and the copy moves in its place.
func (j *Job) placeAgain(target string) error {
	info, err := j.f.disk.root.Lstat(j.From)
	there := err == nil && j.ours(j.From, info)
	if _, err := j.f.disk.root.Lstat(target); err != nil {
		if there {
			if err := j.f.disk.rename(j.From, target); !errors.Is(err, syscall.EXDEV) {
				return err
			}
		}
		if err := j.copyTo(contentFile, target, j.ModTime); err != nil {
			return err
		}
	}
	if there {
		return j.f.disk.remove(j.From)
	}
	return nil
}

// claim moves the file into the job, if it is the one that was taken. What is moved is looked
// at once more: a program may have written it in the last moment. Then it goes back.
func (j *Job) claim() error {
	if !j.has(originalFile) {
		if info, err := j.f.disk.root.Lstat(j.Name); err != nil || !j.same(info) {
			return nil //nolint:nilerr // it vanished, or is another one
		}
		err := j.f.disk.rename(j.Name, path.Join(j.dir, originalFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return j.giveBack()
}

// giveBack puts a file that the job moved, and that changed since, back into the folder.
func (j *Job) giveBack() error {
	original := path.Join(j.dir, originalFile)
	info, err := j.f.disk.root.Lstat(original)
	if err != nil || j.same(info) {
		return nil //nolint:nilerr // there is none
	}
	name, err := j.f.free(".", j.Name)
	if err != nil {
		return err
	}
	return j.f.disk.rename(original, name)
}

func (j *Job) has(file string) bool {
	_, err := j.f.disk.root.Lstat(path.Join(j.dir, file))
	return err == nil
}

// readable is the mode of what stands in done/ or refused/: who could read the file that was
// taken may read that, too.
func (j *Job) readable() fs.FileMode { return j.Mode.Perm()&0o666 | 0o600 }

// copyTo copies a file of the job to its place.
func (j *Job) copyTo(file, target string, at time.Time) error {
	from, err := j.f.disk.root.Open(path.Join(j.dir, file))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	return j.f.disk.write(target, j.readable(), at, func(w io.Writer) error { return durable.Copy(context.Background(), w, from) })
}

// ours reports whether a file is the job's: the one that was taken, or a copy.
func (j *Job) ours(name string, info fs.FileInfo) bool {
	return j.same(info) || info.Mode().IsRegular() && info.Size() == j.Size && j.equal(name)
}

// equal compares a file with the copy.
func (j *Job) equal(name string) bool {
	a, errA := j.Content()
	b, _, errB := j.f.openRegular(name)
	if errA == nil {
		defer func() { _ = a.Close() }()
	}
	if errB == nil {
		defer func() { _ = b.Close() }()
	}
	if errors.Join(errA, errB) != nil {
		return false
	}
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return n == m && ended(errA) && ended(errB)
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

const (
	// maxName leaves room for endings: most file systems take names of 255 bytes.
	maxName = 200
	// maxExtension is the longest end of a name behind a dot that a number goes in front of.
	maxExtension = 20
)

// free returns a name like this one under which nothing is in a folder, nor anything beside
// it. A name that could be that of a file beside another one gets a number in any case.
func (f *Folder) free(dir, name string) (string, error) {
	at := len(name)
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= maxExtension {
		at = dot
	}
	stem, ext := name[:at], name[at:]
	for len(stem)+len(ext) > maxName {
		_, size := utf8.DecodeLastRuneInString(stem)
		stem = stem[:len(stem)-size]
	}
	for n := 1; ; n++ {
		try := stem + ext
		if n > 1 {
			try = stem + "." + strconv.Itoa(n) + ext
		} else if slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, "."+e) }) && dir != "." {
			continue
		}
		taken := false
		for _, ending := range append([]string{""}, endings...) {
			if dir == "." && ending != "" {
				break
			}
			if ending != "" {
				ending = "." + ending
			}
			_, err := f.disk.root.Lstat(path.Join(dir, try+ending))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			taken = taken || err == nil
		}
		if !taken {
			return try, nil
		}
	}
}
