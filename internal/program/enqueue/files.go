package enqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// open opens a file that can be read twice; standard input and pipes are kept
// in a temporary file. path is where it lies; "" for those.
func open(name string, stdin io.Reader) (content io.ReadSeeker, path string, closeFile func(), err error) {
	source := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, "", nil, err
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if path, err = filepath.Abs(name); err != nil {
				path = name
			}
			return f, path, func() { _ = f.Close() }, nil
		}
		defer func() { _ = f.Close() }()
		source = f
	}
	tmp, err := os.CreateTemp("", "enqueue-*")
	if err != nil {
		return nil, "", nil, err
	}
	remove := func() { _ = tmp.Close(); _ = os.Remove(tmp.Name()) }
	if _, err := io.Copy(tmp, source); err != nil {
		remove()
		return nil, "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return tmp, "", remove, nil
}

// writeNew writes a file that is there as a whole or not at all.
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
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// writeUnlessEdited writes a rejects file, but not over one that a person has
// corrected meanwhile.
func writeUnlessEdited(ctx context.Context, path string, write func(context.Context, io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // it is gone once it was renamed
	err = write(ctx, tmp)
	if err = errors.Join(err, tmp.Close()); err != nil {
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
