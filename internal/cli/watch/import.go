package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"orderpost/internal/approval"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/folder"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// refusedError is the error of a file that cannot be imported, however often one tries.
type refusedError struct {
	why string
	err error
}

func (r *refusedError) Error() string { return r.why }

// Unwrap returns the importer's error.
func (r *refusedError) Unwrap() error { return r.err }

// job is one run of the import of a file that was taken.
type job struct {
	u *unit
	*folder.Job
	flags   *folderFlags
	content *os.File // a copy that nobody changes
	path    string   // where the file will be when it is imported
	cfg     broker.Config
}

// open opens the copy of a file that was taken. The caller closes its content.
func (u *unit) open(j *folder.Job) (*job, error) {
	content, err := j.Content()
	if err != nil {
		return nil, fmt.Errorf("the copy: %w", err)
	}
	out := &job{u: u, Job: j, content: content, path: u.path(u.called(j.Target))}
	if abs, err := filepath.Abs(out.path); err == nil {
		out.path = abs
	}
	if err := cli.ReadEnv(&out.cfg, u.environ); err != nil {
		_ = content.Close()
		return nil, err
	}
	return out, nil
}

func (j *job) temp() string { return broker.TempDir(j.u.environ, j.cfg.DataDir) }

// options returns how to import the file.
func (j *job) options() (importer.Options, error) {
	schema, err := j.cfg.Schema.Load(zerolog.Nop())
	o := j.flags.choices.Options()
	o.File, o.Path, o.Temp, o.By, o.Schema, o.Trace = j.u.called(j.Name), j.path, j.temp(), j.u.by.Actor().Name, schema, j.u.trace
	before := 0
	o.Progress = func(rows int) {
		j.u.stored.Add(int64(rows - before))
		if before = rows; j.u.step != nil {
			j.u.step(fmt.Sprint("rows ", rows))
		}
	}
	return o, err
}

// load checks and stores the file. It returns the name of the import and what is to be said about
// it. Error: *refusedError. After any other error the same import goes on behind the last
// confirmed row.
func (j *job) load(ctx context.Context) (batch, says string, err error) {
	o, err := j.options()
	if err != nil {
		return "", "", err
	}
	f, checked, err := j.check(ctx, o)
	if err != nil {
		return "", "", j.refused(ctx, o, err)
	}
	defer func() { _ = f.Close() }()
	if checked.Invalid > 0 {
		if err := j.Beside(ending(f), func(w io.Writer) error { return f.WriteRejects(ctx, w) }); err != nil {
			return "", "", fmt.Errorf("bad rows not written, nothing was enqueued: %w", err)
		}
		checked.Rejects = j.path + "." + ending(f)
	}
	says = checked.BadText()
	err = j.u.by.Act(ctx, j.u.q, f.About(&checked), nil, func(ctx context.Context) (map[string]int, error) {
		done, err := f.Store(ctx, j.u.q, checked, func(importer.Progress) {})
		if err == nil {
			var hold *imports.Hold
			hold, err = imports.HeldBy(ctx, j.u.q, f.Batch)
			if done.PausedBy = hold.By(); hold != nil {
				says += "The orders of this import that wait stay where they are: " + approval.Describe(hold, f.Batch) + ".\n"
			}
		}
		says += done.Text() + strings.Join(done.Errors, "\n")
		return done.Counts(), err
	})
	if importer.Final(err) {
		err = &refusedError{err.Error(), err}
	}
	return f.Batch, strings.TrimSpace(says), err
}

func (j *job) check(ctx context.Context, o importer.Options) (*importer.File, importer.Summary, error) {
	f, err := importer.Open(j.content, o)
	if err != nil {
		return nil, importer.Summary{}, err
	}
	checked, err := f.Check(ctx)
	if err == nil && checked.Rows == 0 {
		err = fmt.Errorf("nothing was enqueued: %s has no rows", o.File)
	}
	if err != nil {
		_ = f.Close()
		return nil, checked, err
	}
	return f, checked, nil
}

// ending is what stands behind a file's name in that of its rejects file.
func ending(f *importer.File) string { return strings.TrimPrefix(f.RejectsName(""), ".") }

// refused makes a *refusedError of an error of the check, unless it is the system's. Where rows
// are bad, it lists all of them beside the file.
func (j *job) refused(ctx context.Context, o importer.Options, err error) error {
	var system syscall.Errno
	if ctx.Err() != nil || errors.As(err, &system) {
		return err
	}
	why := &refusedError{err.Error(), err}
	if _, bad := errors.AsType[*importer.BadRows](err); !bad {
		return why
	}
	why.why = "nothing was enqueued:\n" + why.why
	o.SkipInvalid = true
	f, checked, err := j.check(ctx, o)
	if err != nil {
		if ctx.Err() != nil || errors.As(err, &system) {
			return err
		}
		return why // its rows cannot be told apart
	}
	defer func() { _ = f.Close() }()
	if checked.Invalid == 0 {
		return why
	}
	if err := j.Beside(ending(f), func(w io.Writer) error { return f.WriteRejects(ctx, w) }); err != nil {
		return fmt.Errorf("bad rows not written: %w", err)
	}
	why.why += fmt.Sprintf("\nAll bad rows (%d) are in the file beside this one whose name ends in .%s. The other rows (%d) were not enqueued, either: correct the whole file, and put it into the folder again.", checked.Invalid, ending(f), checked.Rows-checked.Invalid)
	return why
}

// refusal says who refused an import that needed an approval, and why; "" = nobody did.
func refusal(ctx context.Context, q *queue.Queue, batch string) (why string, err error) {
	f, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		return "", err
	}
	a := f.Approvals.Imports[imports.ImportToken(batch)]
	if a == nil || a.Refused == nil {
		return "", nil
	}
	return fmt.Sprintf("%s refused it at %s: %s\nWhat waited of it was withdrawn; the results beside this file name each row. Correct the file, and put it into the folder again; rows that stay as they were are sent only with --retry-failed in the folder's flags.",
		a.Refused.Name, a.Refused.At.UTC().Format("2006-01-02 15:04:05Z"), a.Refused.Note), nil
}

// Errors of writeResults.
var (
	// errUnsettled: orders of the import have no outcome yet.
	errUnsettled = errors.New("orders have no outcome yet")
	// errForgotten: nothing is known of the import any more.
	errForgotten = errors.New("nothing is known of the import any more; its results have expired")
)

// writeResults writes every row of an imported file with its outcome, by finish, which also
// gets the ending of the name: a workbook for a workbook, else CSV. Error: errUnsettled,
// errForgotten.
func (j *job) writeResults(ctx context.Context, finish func(ending string, fill func(io.Writer) error) error) (tally importer.Tally, err error) {
	q, batch := j.u.q, j.Stored
	imp, err := imports.ReadImport(ctx, q, batch)
	if err == nil && imp == nil {
		err = errForgotten
	}
	if err != nil {
		return nil, err
	}
	left, err := status.Unsettled(ctx, q, batch)
	if err == nil && left > 0 {
		err = errUnsettled
	}
	if err != nil {
		return nil, err
	}
	f, err := importer.Reopen(j.content, imp, j.temp())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Check(ctx); err != nil {
		return nil, err
	}
	as := importer.FormatCSV
	if imp.Format == string(importer.FormatXLSX) {
		as = importer.FormatXLSX
	}
	err = finish("results."+string(as), func(w io.Writer) error {
		if tally, err = f.WriteResults(ctx, q, w, as); err == nil && tally.Open() > 0 {
			err = errUnsettled
		}
		return err
	})
	return tally, err
}
