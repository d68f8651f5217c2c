package enqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"orderpost/internal/importer"
	"orderpost/internal/program"
)

// defaultMaxStdin is the default of --max-stdin, in MiB.
const defaultMaxStdin = 4096

// source opens files so that they can be read twice.
type source struct {
	stdin io.Reader
	dir   string // for temporary files; "" = the system's
	max   int64  // longest standard input or pipe, in bytes
}

// open opens a file. It copies standard input and pipes to a temporary file, which it
// removes when the program ends. path is the file's path; "" for those.
func (s *source) open(ctx context.Context, name string) (content io.ReadSeeker, path string, closeFile func(), err error) {
	if name == "-" {
		return s.keep(ctx, "standard input", s.stdin)
	}
	f, err := openFile(ctx, name)
	if err != nil {
		return nil, "", nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		_ = f.Close()
		return nil, "", nil, err
	case info.IsDir():
		_ = f.Close()
		return nil, "", nil, &program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s is a folder; name the files in it: %s", name, filepath.Join(name, "*.csv"))}
	case info.Mode().IsRegular():
		if path, err = filepath.Abs(name); err != nil {
			path = name
		}
		return f, path, func() { _ = f.Close() }, nil
	}
	content, _, closeFile, err = s.keep(ctx, name, program.Interruptible(ctx, f))
	if ctx.Err() == nil { // otherwise a read may still be waiting
		_ = f.Close()
	}
	return content, "", closeFile, err
}

// openFile opens a file. For a named pipe it waits for the writer until ctx ends.
func openFile(ctx context.Context, name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return os.Open(name)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(name)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, ctx.Err() // the goroutine ends with the program
	}
}

func (s *source) keep(ctx context.Context, name string, r io.Reader) (io.ReadSeeker, string, func(), error) {
	tmp, remove, err := importer.TempFile(s.dir)
	if err != nil {
		return nil, "", nil, fmt.Errorf("%s is kept in a file while it is imported: %w", name, err)
	}
	n, err := io.Copy(tmp, io.LimitReader(program.Interruptible(ctx, r), s.max+1))
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("%s is copied to a file while it is imported: %w; set ORDERPOST_DATA_DIR to a folder with more room, or save it as a file and import that", name, err)
	case n > s.max:
		err = fmt.Errorf("%s is longer than %d MiB (--max-stdin); save it as a file and import that, files may have any size", name, s.max>>20)
	}
	if err != nil {
		remove()
		return nil, "", nil, err
	}
	return tmp, "", remove, nil
}

// tempDir returns the data folder if it exists, otherwise "" for the system's folder,
// which may be small.
func tempDir(dataDir string) string {
	if info, err := os.Stat(dataDir); err == nil && info.IsDir() {
		return dataDir
	}
	return ""
}

// writeNew writes a file completely or not at all.
func writeNew(path string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	err = write(tmp)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil { // a power cut must not leave an empty file under the name
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// writeUnlessEdited writes a rejects file, but does not replace one with other content,
// which may hold corrections.
func writeUnlessEdited(ctx context.Context, path string, write func(context.Context, io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // no effect after the rename
	err = write(ctx, tmp)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	same, err := sameContent(tmp.Name(), path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.Rename(tmp.Name(), path)
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%s exists with other content; if it holds corrections, import it or move it away first", path)
	}
	return nil
}

func sameContent(a, b string) (bool, error) {
	var readers [2]*os.File
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		if err != nil {
			return false, err
		}
		defer func() { _ = f.Close() }()
		readers[i] = f
	}
	var bufs [2][32 << 10]byte
	for {
		n, errA := io.ReadFull(readers[0], bufs[0][:])
		m, errB := io.ReadFull(readers[1], bufs[1][:])
		if n != m || !bytes.Equal(bufs[0][:n], bufs[1][:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return ended(errA) && ended(errB), nil
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
