package enqueue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"orderpost/internal/cli"
	"orderpost/internal/platform/durable"
)

// defaultMaxStdin is the default of --max-stdin, in MiB.
const defaultMaxStdin = 4096

// source copies files, standard input and pipes to temporary files: an import reads its
// input several times, and in between somebody may change it.
type source struct {
	stdin io.Reader
	dir   string // for the copies
	max   int64  // longest standard input or pipe, in bytes
}

// open copies a file and opens the copy. closeFile removes the copy, and so does the end of
// the program. path is the file's path; "" for standard input and pipes.
func (s *source) open(ctx context.Context, name string) (content io.ReadSeeker, path string, closeFile func(), err error) {
	if name == "-" {
		content, closeFile, err = s.keepStream(ctx, "standard input", s.stdin)
		return content, "", closeFile, err
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
		return nil, "", nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s is a folder; name the files in it: %s", name, filepath.Join(name, "*.csv"))}
	case info.Mode().IsRegular():
		if path, err = filepath.Abs(name); err != nil {
			path = name
		}
		content, closeFile, err = s.keep(ctx, name, func(to *os.File) error { return durable.Copy(ctx, to, f) })
		_ = f.Close()
		return content, path, closeFile, err
	}
	content, closeFile, err = s.keepStream(ctx, name, f)
	if ctx.Err() == nil { // otherwise a read may still be waiting
		_ = f.Close()
	}
	return content, "", closeFile, err
}

// info describes what a name opens; nil if nobody knows.
func (s *source) info(name string) (info os.FileInfo) {
	if name != "-" {
		info, _ = os.Stat(name)
	} else if f, ok := s.stdin.(*os.File); ok {
		info, _ = f.Stat()
	}
	return info
}

// openFile opens a file. For a named pipe it waits for the writer until ctx ends.
func openFile(ctx context.Context, name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return os.Open(name)
	}
	return whenOpened(ctx, func() (*os.File, error) { return os.Open(name) })
}

// whenOpened opens a named pipe, which waits for its other end, until ctx ends.
func whenOpened(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := open()
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, ctx.Err() // the goroutine ends with the program
	}
}

// changed reports whether a regular file was changed between two looks at it.
func changed(before, after os.FileInfo) bool {
	return before != nil && after != nil && before.Mode().IsRegular() && (before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()))
}

var errTooLong = errors.New("it is too long")

// keepStream copies standard input or a pipe, up to the longest that is allowed.
func (s *source) keepStream(ctx context.Context, name string, r io.Reader) (io.ReadSeeker, func(), error) {
	content, closeFile, err := s.keep(ctx, name, func(to *os.File) error {
		n, err := io.Copy(to, io.LimitReader(cli.Interruptible(ctx, r), s.max+1))
		if err == nil && n > s.max {
			err = errTooLong
		}
		return err
	})
	if errors.Is(err, errTooLong) {
		err = fmt.Errorf("%s is longer than %d MiB (--max-stdin); save it as a file and import that, files may have any size", name, s.max>>20)
	}
	return content, closeFile, err
}

// keep makes a copy and opens it.
func (s *source) keep(ctx context.Context, name string, fill func(*os.File) error) (io.ReadSeeker, func(), error) {
	tmp, remove, err := tempFile(s.dir)
	if err == nil {
		if err = fill(tmp); err == nil {
			return tmp, remove, nil
		}
		remove()
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	return nil, nil, fmt.Errorf("an import works on a copy of %s in %s: %w; if there is no room, make some there, or set TMPDIR to a folder with more", name, s.dir, err)
}

// tempFile creates a temporary file in a folder and removes its name at once. The file
// vanishes even if the program is killed. If the system cannot remove open files, closeFile
// removes it.
func tempFile(dir string) (f *os.File, closeFile func(), err error) {
	if f, err = os.CreateTemp(dir, ".enqueue-*"); err != nil {
		return nil, nil, err
	}
	if os.Remove(f.Name()) == nil {
		return f, func() { _ = f.Close() }, nil
	}
	return f, func() { _ = f.Close(); _ = os.Remove(f.Name()) }, nil
}

// writeUnlessEdited writes a rejects file, at the end of its links. It leaves a file that
// is not empty as it is, and refuses one with other content, which may hold corrections.
func writeUnlessEdited(ctx context.Context, path string, write func(context.Context, io.Writer) error) error {
	end, err := target(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(end)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return replace(end, func(w io.Writer) error { return write(ctx, w) })
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file, and the bad rows need one; move it away first", path)
	}
	existing, err := os.Open(end)
	if err != nil {
		return err
	}
	defer func() { _ = existing.Close() }()
	same := &comparison{r: bufio.NewReader(existing)}
	if err := write(ctx, same); err != nil && !errors.Is(err, errDiffers) {
		return err
	}
	if !same.ended() {
		return fmt.Errorf("%s exists with other content; if it holds corrections, import it or move it away first", path)
	}
	return nil
}

var errDiffers = errors.New("the content differs")

// comparison compares what is written to it with what is read.
type comparison struct {
	r       *bufio.Reader
	differs bool
}

// Write implements io.Writer.
func (c *comparison) Write(p []byte) (int, error) {
	there := make([]byte, len(p))
	if _, err := io.ReadFull(c.r, there); err != nil || !bytes.Equal(p, there) {
		c.differs = true
		return 0, errDiffers
	}
	return len(p), nil
}

// ended reports whether all that can be read was written.
func (c *comparison) ended() bool {
	_, err := c.r.ReadByte()
	return !c.differs && errors.Is(err, io.EOF)
}
