package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"io"
	"os"
	"path"
	"slices"
	"time"
)

// file is one of an archive or package: its bytes, or where they are.
type file struct {
	path string
	from string
	body []byte
	mode int64
}

// archive packs files below a folder of the archive's name: zip for Windows,
// tar.gz for others. Order, owner, time and modes are fixed.
func (b *build) archive(name, goos string, files []file) error {
	slices.SortFunc(files, func(x, y file) int { return cmp.Compare(x.path, y.path) })
	ending, pack := ".tar.gz", tarball
	if goos == "windows" {
		ending, pack = ".zip", zipped
	}
	out, err := b.create(name + ending)
	if err != nil {
		return err
	}
	if err := pack(out, name, b.when, files); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func tarball(w io.Writer, folder string, when time.Time, files []file) error {
	gz, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(gz)
	for _, f := range files {
		body, err := f.bytes()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: path.Join(folder, f.path), Mode: f.mode, Size: int64(len(body)), ModTime: when, Uname: "root", Gname: "root", Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(body); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return gz.Close()
}

func zipped(w io.Writer, folder string, when time.Time, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		body, err := f.bytes()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: path.Join(folder, f.path), Method: zip.Deflate, Modified: when}
		h.SetMode(os.FileMode(f.mode)) //nolint:gosec // ours
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(body); err != nil {
			return err
		}
	}
	return z.Close()
}

func (f file) bytes() ([]byte, error) {
	if f.from == "" {
		return f.body, nil
	}
	return os.ReadFile(f.from)
}
