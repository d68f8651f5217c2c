package enqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
)

// Taken is a file that a watched folder took. It is imported by the code of enqueue.
type Taken struct {
	// Content is a copy that nobody changes. Name is what messages call the file, Path
	// where it will be when it is imported.
	Content    *os.File
	Name, Path string
	// At is the moment by which its times are judged, in every run of its import.
	At      time.Time
	Environ map[string]string
	// Trace is that of importer.Options.
	Trace func(orderNo, intentID, stream string) string
	By    broker.Acting
	// Beside takes a file about the bad rows, by the ending of its name.
	Beside func(ending string, fill func(io.Writer) error) error
	// Rows is called after each chunk of rows that was stored. It may be nil.
	Rows func(done int)
}

// Refused is the error of a file that cannot be imported, however often one tries.
type Refused struct {
	// Why has the words of enqueue.
	Why string
	err error
}

func (r *Refused) Error() string { return r.Why }

// Unwrap returns the error of enqueue.
func (r *Refused) Unwrap() error { return r.err }

// Import checks and stores a file as enqueue does. It returns the name of the import and what
// enqueue says about it. Error: *Refused. After any other error the same import goes on
// behind the last confirmed row.
func (x *FolderFlags) Import(ctx context.Context, q *queue.Queue, t Taken) (batch, says string, err error) {
	o := x.o
	o.now, o.source = t.At, t.Name
	cfg, options, err := o.common(t.Environ)
	if err != nil {
		return "", "", err
	}
	options.Progress, options.Trace = t.Rows, t.Trace
	var out bytes.Buffer
	j := &job{o: &o, by: t.By, options: options, stdout: &out, stderr: &out, environ: t.Environ, line: newStatusLine(io.Discard),
		source: source{dir: tempDir(t.Environ, cfg.DataDir), taken: &t}}
	f, err := j.check(ctx, t.Name)
	if err != nil {
		return "", "", j.refused(ctx, err)
	}
	defer f.close()
	if f.rejects != "" {
		if err := t.Beside(ending(f.File), func(w io.Writer) error { return f.WriteRejects(ctx, w) }); err != nil {
			return "", "", fmt.Errorf("bad rows not written, nothing was enqueued: %w", err)
		}
		f.summary.Rejects, f.rejects = t.Path+"."+ending(f.File), ""
	}
	err = j.enqueue(ctx, q, f)
	if errors.Is(err, importer.ErrCancelled) || errors.Is(err, importer.ErrOtherContent) || errors.Is(err, importer.ErrOtherTime) || errors.Is(err, importer.ErrOtherMapping) {
		err = &Refused{err.Error(), err}
	}
	return f.Batch, strings.TrimSpace(out.String()), err
}

// ending is what stands behind a file's name in that of its rejects file.
func ending(f *importer.File) string { return strings.TrimPrefix(f.RejectsName(""), ".") }

// refused makes a *Refused of an error of the check, unless it is the system's. Where rows are
// bad, it lists all of them beside the file.
func (j *job) refused(ctx context.Context, err error) error {
	var system syscall.Errno
	if ctx.Err() != nil || errors.As(err, &system) {
		return err
	}
	why := &Refused{err.Error(), err}
	if _, bad := errors.AsType[*importer.BadRows](err); !bad {
		return why
	}
	all := *j
	all.options.SkipInvalid = true
	f, err := all.check(ctx, j.source.taken.Name)
	if err != nil {
		if ctx.Err() != nil || errors.As(err, &system) {
			return err
		}
		return why // its rows cannot be told apart
	}
	defer f.close()
	if f.summary.Invalid == 0 {
		return why
	}
	if err := j.source.taken.Beside(ending(f.File), func(w io.Writer) error { return f.WriteRejects(ctx, w) }); err != nil {
		return fmt.Errorf("bad rows not written: %w", err)
	}
	why.Why += fmt.Sprintf("\nAll bad rows (%d) are in the file beside this one whose name ends in .%s. The other rows (%d) were not enqueued, either: correct the whole file, and put it into the folder again.", f.summary.Invalid, ending(f.File), f.summary.Rows-f.summary.Invalid)
	return why
}

// Refusal says who refused an import that needed an approval, and why; "" = nobody did.
func Refusal(ctx context.Context, q *queue.Queue, batch string) (why string, err error) {
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

// Errors of WriteResults.
var (
	// ErrUnsettled: orders of the import have no outcome yet.
	ErrUnsettled = errors.New("orders have no outcome yet")
	// ErrForgotten: nothing is known of the import any more.
	ErrForgotten = errors.New("nothing is known of the import any more; its results have expired")
)

// WriteResults writes every row of an imported file with its outcome, by finish, which also
// gets the ending of the name: a workbook for a workbook, else CSV. Error: ErrUnsettled,
// ErrForgotten.
func WriteResults(ctx context.Context, q *queue.Queue, batch string, t Taken, finish func(ending string, fill func(io.Writer) error) error) (tally importer.Tally, err error) {
	var cfg broker.Config
	if err := cli.ReadEnv(&cfg, t.Environ); err != nil {
		return nil, err
	}
	imp, err := imports.ReadImport(ctx, q, batch)
	switch {
	case err != nil:
		return nil, err
	case imp == nil:
		return nil, ErrForgotten
	}
	left, err := importer.Unsettled(ctx, q, batch)
	if err == nil && left > 0 {
		err = ErrUnsettled
	}
	if err != nil {
		return nil, err
	}
	f, err := importer.Reopen(t.Content, imp, tempDir(t.Environ, cfg.DataDir))
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
			err = ErrUnsettled
		}
		return err
	})
	return tally, err
}
