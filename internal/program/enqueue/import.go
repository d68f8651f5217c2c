package enqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/importer"
	"orderpost/internal/program"
	"orderpost/internal/program/broker"
	"orderpost/internal/queue"
)

type importOptions struct {
	batch    string
	source   string
	deadline string
	json     bool
	quiet    bool
}

func (o *importOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.batch, "batch", "", "name of the import (default: a hash of the content)")
	f.StringVar(&o.source, "source", "", "name of the file in messages and results, for standard input")
	f.StringVar(&o.deadline, "deadline", "", "RFC 3339 time after which the orders are not sent any more")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON, one object per file")
	f.BoolVar(&o.quiet, "quiet", false, "print nothing but errors")
}

// run imports the files one after another. The first one that cannot be
// imported ends it.
func (o *importOptions) run(ctx context.Context, files []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) error {
	cfg, deadline, err := o.settings(files, environ)
	if err != nil {
		return &program.ExitError{Code: program.ExitUsage, Err: err}
	}
	checked := make([]*checkedFile, 0, len(files))
	defer func() {
		for _, f := range checked {
			f.close()
		}
	}()
	for _, name := range files { // all of them, before anything is published
		f, err := o.check(name, deadline, stdin)
		if err != nil {
			return err
		}
		checked = append(checked, f)
	}
	q, closeQueue, err := broker.Open(ctx, cfg, broker.Options{Name: "enqueue", Stderr: stderr})
	if err != nil {
		return err
	}
	defer closeQueue()
	partial := false
	for _, f := range checked {
		s, err := importer.Publish(ctx, f.content, q, f.summary, f.options)
		o.print(stdout, s)
		if err != nil {
			return err
		}
		for _, line := range s.Errors {
			_, _ = fmt.Fprintln(stderr, line)
		}
		partial = partial || s.Failed > 0
	}
	o.sayWorkers(ctx, q, stderr)
	if partial {
		return &program.ExitError{Code: program.ExitPartial, Err: errors.New("some rows are not known to be in the queue; run the same command again, it enqueues nothing twice")}
	}
	return nil
}

func (o *importOptions) settings(files []string, environ map[string]string) (broker.Config, time.Time, error) {
	var cfg broker.Config
	var deadline time.Time
	errs := []error{program.ReadEnv(&cfg, environ)}
	errs = append(errs, cfg.Queue.Validate())
	if o.deadline != "" {
		var err error
		if deadline, err = time.Parse(time.RFC3339, o.deadline); err != nil {
			errs = append(errs, fmt.Errorf("--deadline: %q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", o.deadline))
		}
	}
	if len(files) > 1 && o.batch != "" {
		errs = append(errs, errors.New("--batch: give it with a single file; each file is an import of its own"))
	}
	return cfg, deadline, errors.Join(errs...)
}

// checkedFile is a file whose rows can all be sent.
type checkedFile struct {
	content io.ReadSeeker
	close   func()
	summary importer.Summary
	options importer.Options
}

func (o *importOptions) check(name string, deadline time.Time, stdin io.Reader) (*checkedFile, error) {
	content, closeFile, err := open(name, stdin)
	if err != nil {
		return nil, err
	}
	f := &checkedFile{content: content, close: closeFile,
		options: importer.Options{File: name, Batch: o.batch, Deadline: deadline}}
	if name == "-" {
		f.options.File = "stdin"
		if o.source != "" {
			f.options.File = o.source
		}
	}
	f.summary, err = importer.Check(content, f.options)
	if err != nil {
		closeFile()
		return nil, &program.ExitError{Code: program.ExitPartial, Err: fmt.Errorf("nothing was enqueued:\n%w", err)}
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		closeFile()
		return nil, err
	}
	return f, nil
}

// open opens a file that can be read twice; standard input and pipes are kept
// in a temporary file.
func open(name string, stdin io.Reader) (io.ReadSeeker, func(), error) {
	source := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, func() { _ = f.Close() }, nil
		}
		defer func() { _ = f.Close() }()
		source = f
	}
	tmp, err := os.CreateTemp("", "enqueue-*")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = tmp.Close(); _ = os.Remove(tmp.Name()) }
	if _, err := io.Copy(tmp, source); err != nil {
		remove()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		remove()
		return nil, nil, err
	}
	return tmp, remove, nil
}

func (o *importOptions) print(w io.Writer, s importer.Summary) {
	switch {
	case o.json:
		_ = json.NewEncoder(w).Encode(s)
	case !o.quiet:
		_, _ = fmt.Fprintf(w, "%s: %d rows, batch %s\n", s.File, s.Rows, s.Batch)
		for _, line := range []struct {
			n    int
			what string
		}{
			{s.Stored, "enqueued"},
			{s.AlreadyPending, "not enqueued: an intent for the order_no is pending already"},
			{s.AlreadyKnown, "not enqueued: stored by the same import a moment ago"},
			{s.Failed, "not known to be enqueued"},
			{s.Warnings, "warnings: other readings of the signing contract differ here"},
		} {
			if line.n > 0 {
				_, _ = fmt.Fprintf(w, "%8d %s\n", line.n, line.what)
			}
		}
		for _, example := range s.Examples {
			_, _ = fmt.Fprintf(w, "         e.g. %s\n", example)
		}
	}
}

// sayWorkers tells people when nobody is there to work their orders off.
func (o *importOptions) sayWorkers(ctx context.Context, q *queue.Queue, stderr io.Writer) {
	if o.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if workers, err := q.Workers(ctx); err == nil && len(workers) == 0 {
		_, _ = fmt.Fprintln(stderr, "No worker is running: the orders wait in the queue until one is (cmd/worker).")
	}
}
