package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
	"orderpost/internal/queue"
)

// output is where the rows of a file go with their outcomes.
type output struct {
	path   string // "" = nowhere, "-" = standard output
	stdout io.Writer
}

// isStdout reports whether a path is standard output. /dev/stdout may be a link to a
// regular file, which a rename would take away from the shell that opened it.
func isStdout(path string) bool {
	return slices.Contains([]string{"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}, path)
}

// format returns the format of what is written.
func (o output) format() importer.Format {
	if strings.EqualFold(filepath.Ext(o.path), ".xlsx") {
		return importer.FormatXLSX
	}
	return importer.FormatCSV
}

// check refuses a path under which something would be lost: the imported file itself,
// and any regular file that is not empty and holds no results. It also refuses one whose
// folder takes no file: the orders may take days, and then it would be too late. f was
// checked, with this summary; input is what it was read from and may be nil.
func (o output) check(f *importer.File, s *importer.Summary, input os.FileInfo) error {
	if o.path == "" || isStdout(o.path) {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf(format, args...)}
	}
	if err := s.CheckRoom(o.format()); err != nil {
		return refuse("%s: %w", o.path, err)
	}
	info, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o.checkFolder()
	case err != nil:
		return err
	case info.IsDir():
		return refuse("%s is a folder; name a file for the results", o.path)
	case input != nil && os.SameFile(info, input):
		return refuse("%s is the imported file, the results would replace it; name another file for them", o.path)
	case !info.Mode().IsRegular():
		return nil
	case info.Size() == 0:
		return o.checkFolder()
	}
	existing, err := os.Open(o.path)
	if err != nil {
		return err
	}
	defer func() { _ = existing.Close() }()
	if !f.IsResults(existing) {
		return refuse("%s exists and holds no results of an import, so they do not replace it; name another file, or move it away", o.path)
	}
	return o.checkFolder()
}

// checkFolder refuses a path whose folder takes no file, by making one there as replace will.
func (o output) checkFolder() error {
	tmp, _, err := beside(o.path)
	if err == nil {
		return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
	}
	why := err
	if broken, ok := errors.AsType[*fs.PathError](err); ok {
		why = broken.Err // it names a file that nobody knows
	}
	return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s: its folder takes no file (%w); make the folder, or name a file in another one", o.path, why)}
}

// write writes the results and counts the rows by outcome. A regular file is replaced
// as a whole, at the end of its links, with its mode and, where possible, its owner.
// Pipes and devices are written directly.
func (o output) write(ctx context.Context, q *queue.Queue, f *importer.File, s *importer.Summary, input os.FileInfo) (tally importer.Tally, err error) {
	rows := func(w io.Writer) error {
		tally, err = f.WriteResults(ctx, q, w, o.format())
		return err
	}
	if err := o.check(f, s, input); err != nil { // once more: the orders may have taken days
		return nil, fmt.Errorf("results not written: %w", err)
	}
	info, statErr := os.Stat(o.path)
	switch {
	case o.path == "":
		return f.WriteResults(ctx, q, nil, importer.FormatCSV)
	case isStdout(o.path):
		err = rows(cli.ForTerminal(o.stdout))
	case statErr == nil && !info.Mode().IsRegular():
		err = writeDirectly(ctx, o.path, rows)
	default:
		err = replace(o.path, rows)
	}
	if err != nil {
		err = fmt.Errorf("results not written: %w", err)
	}
	return tally, err
}

// writeDirectly writes into a pipe or a device. For a named pipe it waits for the
// reader until ctx ends.
func writeDirectly(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := whenOpened(ctx, func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) })
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Now()) }) // a reader may have stopped reading
	defer stop()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

// maxLinks is how many links a path may go through, as in Linux.
const maxLinks = 40

// target returns where the links of a path end. Nothing needs to be there.
func target(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // it is no link, or is not there
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// beside makes a hidden file in the folder in which the links of a path end. end is where they do.
func beside(path string) (tmp *os.File, end string, err error) {
	if end, err = target(path); err != nil {
		return nil, "", err
	}
	tmp, err = os.CreateTemp(filepath.Dir(end), "."+filepath.Base(end)+".*")
	return tmp, end, err
}

// replace writes a file completely or not at all.
func replace(path string, write func(io.Writer) error) (err error) {
	tmp, path, err := beside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	err = write(tmp)
	if info, statErr := os.Stat(path); statErr == nil {
		keepOwner(tmp, info)
		err = errors.Join(err, tmp.Chmod(info.Mode().Perm()))
	}
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil { // a power cut must not leave an empty file under the name
		return err
	}
	return os.Rename(tmp.Name(), path)
}
