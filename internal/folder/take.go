package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// ErrChanged says that a file changed, or vanished, while it was copied. It is not taken.
var ErrChanged = errors.New("it changed while it was copied")

// Take copies a complete file and makes a job of it. If it returns an error, nothing was taken.
// kept is what the caller needs for the job, such as the flags of this moment. Error:
// ErrChanged, and what the disk says.
func (f *Folder) Take(ctx context.Context, one Found, kept map[string]string) (*Job, error) {
	j := &Job{f: f, dir: path.Join(state, newID()), Record: Record{Name: one.Name, TakenAt: time.Now().UTC(), Size: one.info.Size(),
		ModTime: one.info.ModTime(), Mode: one.info.Mode(), Why: one.Why, Kept: kept}}
	if one.marker != nil {
		j.Marker, j.MarkerAt = one.markerName, one.marker.ModTime()
	}
	whole := j.dir
	j.dir += part
	err := f.disk.mkdir(j.dir, 0o700)
	if err == nil && j.Why == "" {
		err = j.copy(ctx)
	}
	if err == nil {
		err = j.save()
	}
	if err == nil {
		err = f.disk.rename(j.dir, whole)
	}
	if err != nil {
		_ = f.disk.removeAll(j.dir) // a start removes what is left
		_ = f.disk.removeAll(whole)
		return nil, err
	}
	j.dir = whole
	f.mu.Lock()
	f.jobs = append(f.jobs, j)
	f.mu.Unlock()
	return j, j.unmark()
}

// copy copies the file, if it is still as it was seen.
func (j *Job) copy(ctx context.Context) error {
	file, info, err := j.f.openRegular(j.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	defer func() { _ = file.Close() }()
	if !j.same(info) {
		return ErrChanged
	}
	if err := j.f.disk.write(path.Join(j.dir, contentFile), 0o600, time.Time{}, func(w io.Writer) error { return Copy(ctx, w, file) }); err != nil {
		return err
	}
	if info, err = file.Stat(); err == nil && !j.same(info) {
		err = ErrChanged
	}
	return err
}

// unmark removes the marker of a file that is taken. The marker of a later file stays.
func (j *Job) unmark() error {
	if j.Marker == "" || j.Placed || j.From != "" {
		return nil
	}
	info, err := j.f.disk.root.Lstat(j.Marker)
	if err != nil || !info.ModTime().Equal(j.MarkerAt) {
		return nil //nolint:nilerr // it is gone
	}
	return j.f.disk.remove(j.Marker)
}
