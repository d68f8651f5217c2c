package folder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"orderpost/internal/platform/durable"
)

// The files of a job. Those that begin with beside go beside the file.
const (
	recordFile   = "job.json"
	contentFile  = "content"
	originalFile = "original"
	beside       = "beside."
)

// Record is what is remembered of a file that was taken.
type Record struct {
	Name    string    `json:"name"`
	TakenAt time.Time `json:"taken_at"`
	// Size, ModTime and Mode are the file's when it was taken.
	Size    int64       `json:"size"`
	ModTime time.Time   `json:"mod_time"`
	Mode    fs.FileMode `json:"mode"`
	// Marker is the name of the file's marker, MarkerAt the time of its last change.
	Marker   string    `json:"marker,omitempty"`
	MarkerAt time.Time `json:"marker_at,omitzero"`
	// Kept is the caller's.
	Kept map[string]string `json:"kept,omitempty"`
	// Stored names what the file was stored as, once it was. Why is why it was refused. One
	// of the two is set when the job comes to its place.
	Stored string `json:"stored,omitempty"`
	Why    string `json:"why,omitempty"`
	// Target is the path in the folder, in done/ or refused/; Placed says that the file is
	// there.
	Target string `json:"target,omitempty"`
	Placed bool   `json:"placed,omitempty"`
	// From is where the file was in done/, if it was refused after it was stored.
	From string `json:"from,omitempty"`
}

// Job is a file that was taken. One goroutine at a time may call its methods.
type Job struct {
	f   *Folder
	dir string
	Record
}

// takes reports whether a name belongs to a job that has not moved its file yet.
func (f *Folder) takes(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.jobs, func(j *Job) bool { return j.Name == name && !j.Placed && j.From == "" })
}

// change changes the record.
func (j *Job) change(set func(*Record)) error {
	before := j.Record
	j.f.mu.Lock()
	set(&j.Record)
	j.f.mu.Unlock()
	err := j.save()
	if err != nil {
		j.f.mu.Lock()
		j.Record = before
		j.f.mu.Unlock()
	}
	return err
}

func (j *Job) save() error {
	return j.f.disk.write(path.Join(j.dir, recordFile), 0o600, time.Time{}, func(w io.Writer) error { return json.NewEncoder(w).Encode(j.Record) })
}

// same reports whether a file is as it was when it was taken.
func (j *Job) same(info fs.FileInfo) bool {
	return info != nil && info.Mode().Type() == j.Mode.Type() && info.Size() == j.Size && info.ModTime().Equal(j.ModTime)
}

// Content opens the copy.
func (j *Job) Content() (*os.File, error) { return j.f.disk.root.Open(path.Join(j.dir, contentFile)) }

// Beside writes a file that will stand beside the job's file, under its name with this ending.
func (j *Job) Beside(ending string, fill func(io.Writer) error) error {
	return j.f.disk.write(path.Join(j.dir, beside+ending), 0o600, time.Time{}, fill)
}

// Store notes that the file was stored as something, Refuse that it is refused.
func (j *Job) Store(as string) error { return j.change(func(r *Record) { r.Stored = as }) }

// Refuse notes why the file is refused.
func (j *Job) Refuse(why string) error { return j.change(func(r *Record) { r.Why = why }) }

// Recall notes that a file that was stored, and is in done/, was refused after all. Place moves
// it then.
func (j *Job) Recall(why string) error {
	return j.change(func(r *Record) { r.Why, r.From, r.Placed = why, r.Target, false })
}

// Finish writes a last file beside the job's file, and ends the job. If fill returns an
// error, the job stays. changed says that the file in done/ is not the one that was stored
// any more; the caller is told once.
func (j *Job) Finish(ending string, fill func(io.Writer) error) (changed bool, err error) {
	target := j.Target
	if err := j.f.disk.write(target+"."+ending, j.readable(), time.Time{}, fill); err != nil {
		return false, err
	}
	info, err := j.f.disk.root.Lstat(target)
	return err == nil && !j.ours(target, info), j.End()
}

// End ends a job whose file is in its place.
func (j *Job) End() error {
	if err := j.giveBack(); err != nil {
		return err
	}
	err := j.f.disk.rename(j.dir, j.dir+part)
	if err == nil {
		err = j.f.disk.removeAll(j.dir + part) // a start removes what is left
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		j.f.mu.Lock()
		j.f.jobs = slices.DeleteFunc(j.f.jobs, func(other *Job) bool { return other == j })
		j.f.mu.Unlock()
	}
	return err
}

// besides returns the endings of what stands beside the job's file.
func (j *Job) besides() ([]string, error) {
	entries, err := j.f.list(j.dir)
	var out []string
	for _, e := range entries {
		if ending, found := strings.CutPrefix(e.Name(), beside); found {
			out = append(out, ending)
		}
	}
	return out, err
}

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
	if err := j.f.disk.write(path.Join(j.dir, contentFile), 0o600, time.Time{}, func(w io.Writer) error { return durable.Copy(ctx, w, file) }); err != nil {
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
